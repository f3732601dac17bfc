"""Makers of good pictures that Pillow itself does not write: 16 bits a channel, floats, colour profiles."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png16(pixels: np.ndarray, *chunks: bytes) -> bytes:
    """A PNG of 16 bits from uint16 (h, w, 1..4)."""
    height, width, channels = pixels.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    parts = [
        png_chunk(b"IHDR", header),
        *chunks,
        png_chunk(b"IDAT", zlib.compress(rows)),
        png_chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff(pixels: np.ndarray, photometric: int | None = None) -> bytes:
    """An uncompressed little-endian TIFF of any kind of number from (h, w, 1, 3 or 4)."""
    height, width, channels = pixels.shape
    data = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
    bits, kind = pixels.dtype.itemsize * 8, {"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]
    single = {256: width, 257: height, 259: 1, 277: channels, 278: height, 279: len(data)}
    single[262] = photometric if photometric is not None else (1 if channels == 1 else 2)
    count = len(single) + 3 + (channels == 4)
    after = 8 + 2 + 12 * count + 4
    entries = [(tag, 4, 1, struct.pack("<I", value)) for tag, value in single.items()]
    extra = b""
    for tag, value in ((258, bits), (339, kind)):
        if channels == 1:
            entries.append((tag, 3, 1, struct.pack("<HH", value, 0)))
        else:
            entries.append((tag, 3, channels, struct.pack("<I", after + len(extra))))
            extra += struct.pack(f"<{channels}H", *[value] * channels)
    if channels == 4:
        entries.append((338, 3, 1, struct.pack("<HH", 2, 0)))  # the fourth is alpha
    entries.append((273, 4, 1, struct.pack("<I", after + len(extra))))
    table = b"".join(struct.pack("<HHI", tag, form, n) + value for tag, form, n, value in sorted(entries))
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + table + struct.pack("<I", 0) + extra + data


SRGB_PRIMARIES = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))


def profile(gamma: float, primaries: tuple[tuple[float, float, float], ...] = SRGB_PRIMARIES) -> bytes:
    """An ICC profile of RGB with these primaries (XYZ at D50), or of grey with none, and this gamma."""

    def xyz(*values: float) -> bytes:
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(v * 65536)) for v in values)

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    text = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(78) + b"\0"
    tags = {b"desc": text, b"cprt": b"text\0\0\0\0none\0\0\0\0", b"wtpt": xyz(0.9642, 1.0, 0.8249)}
    if primaries:
        tags |= {b"rXYZ": xyz(*primaries[0]), b"gXYZ": xyz(*primaries[1]), b"bXYZ": xyz(*primaries[2])}
        tags |= {b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    else:
        tags[b"kTRC"] = curve
    offset, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, data in tags.items():
        table += name + struct.pack(">II", offset + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    space = b"RGB " if primaries else b"GRAY"
    size = offset + len(body)
    header = struct.pack(">I4sI", size, b"lcms", 0x02400000) + b"mntr" + space + b"XYZ "
    header += bytes(12) + b"acsp" + bytes(28) + struct.pack(">iii", 63190, 65536, 54061)
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body
