"""Makers of files that no picture should be like."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def png_declaring(width: int, height: int) -> bytes:
    """A PNG of a few dozen bytes whose header claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(width: int = 64, height: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def _frames(kind: str) -> bytes:
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


BAD: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty": ("zero.png", lambda: b"", "0 bytes"),
    "text": ("notes.png", lambda: b"this is no picture", "not a picture"),
    "half a png": ("half.png", lambda: encoded(noise())[:4000], "cut short"),
    "half a jpeg": ("half.jpg", lambda: encoded(noise(), "JPEG")[:1500], "cut short"),
    "one pixel": ("dot.png", lambda: encoded(Image.new("RGB", (1, 1))), "1x1 is too small"),
    "bomb": ("bomb.png", lambda: png_declaring(40_000, 40_000), "too many"),
    "large": ("large.png", lambda: png_declaring(16_000, 16_000), "too many"),
    "animated gif": ("walk.gif", lambda: _frames("GIF"), "an animation of 3 frames"),
    "animated webp": ("walk.webp", lambda: _frames("WEBP"), "an animation of 3 frames"),
    "torn header": ("torn.tiff", lambda: encoded(noise(), "TIFF")[:-60], "cut short"),
}
"""name of a kind -> (file name, its bytes, what the message must say)"""

BAD_KINDS = tuple(BAD)


def write_bad(folder: Path, kind: str) -> tuple[str, str]:
    """Writes a bad file; returns its name and what a message about it must say."""
    name, make, says = BAD[kind]
    (folder / name).write_bytes(make())
    return name, says
