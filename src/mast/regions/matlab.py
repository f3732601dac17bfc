"""MATLAB's .mat files, as far as maps need it: numbers, cells and structures of level 5, which MATLAB writes
unless it is told -v4 or -v7.3.

Our own few lines, although scipy reads them too: on a damaged file its reader can end the whole process.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..files import open_regular
from ..images import LARGEST
from ..job import InputError

HEADER = 128  # bytes
LARGEST_FILE = 1 << 28  # bytes, packed or unpacked
DEEPEST = 8  # cells and structures within each other
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15
CELL, STRUCTURE, NUMBERS = 1, 2, range(6, 16)  # classes of arrays


def read_mat(path: Path) -> list[Any]:
    """The file's variables: an array (any shape) of numbers, a list for cells, a list of dictionaries for
    structures, None for whatever else there is.
    """
    with open_regular(path, "label map") as file:
        data = file.read(LARGEST_FILE + 1)
    if data.startswith(b"MATLAB 7.3"):
        raise InputError(f"{path}: saved as MATLAB 7.3; save it again with -v7")
    try:
        if len(data) > LARGEST_FILE:
            raise ValueError("far too large")
        order = {b"IM": "<", b"MI": ">"}[data[126:HEADER]]
        return [_matrix(body, order, 0) for kind, body in _unpacked(data[HEADER:], order) if kind == MATRIX]
    except (ValueError, KeyError, IndexError, zlib.error) as error:
        raise InputError(f"{path}: not a MATLAB file, or damaged ({error}); copy it again") from error


def _unpacked(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    for kind, body in _elements(data, order):
        if kind == COMPRESSED:
            unpacker = zlib.decompressobj()
            whole = unpacker.decompress(body, LARGEST_FILE)
            if not unpacker.eof:
                raise ValueError("cut short, or far too large")
            yield from _elements(whole, order)
        else:
            yield kind, body


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """What stands one after the other: the kind of each and its bytes. Four bytes or fewer are packed into
    the tag; all but compressed ones begin at a multiple of eight.
    """
    at = 0
    while at + 8 <= len(data):
        kind, size = (int(v) for v in np.frombuffer(data, f"{order}u4", 2, at))
        if kind >> 16:
            kind, size, begin, following = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            if size > 4:
                raise ValueError("a short element that is long")
        else:
            begin = at + 8
            following = begin + size + (0 if kind == COMPRESSED else -size % 8)
        if begin + size > len(data):
            raise ValueError("cut short")
        yield kind, data[begin : begin + size]
        at = following


def _matrix(data: bytes, order: str, depth: int) -> Any:
    if not data:
        return None
    if depth > DEEPEST:
        raise ValueError("nested far too deep")
    parts = list(_elements(data, order))
    flags, shape = _numbers(parts[0], order), [int(side) for side in _numbers(parts[1], order)]
    kind, count, rest = int(flags[0]) & 0xFF, math.prod(shape), parts[3:]  # the name, parts[2], says nothing
    if min(shape, default=-1) < 0 or count > LARGEST:
        raise ValueError(f"an array of {shape}")
    if kind in NUMBERS:
        values = _numbers(rest[0], order)
        if len(values) != count:
            raise ValueError(f"{len(values)} numbers for an array of {shape}")
        return values.reshape(shape, order="F")
    if kind == CELL:
        return [_matrix(body, order, depth + 1) for _, body in rest]
    if kind == STRUCTURE:
        length = int(_numbers(rest[0], order)[0])
        text = rest[1][1]
        names = [
            text[i : i + length].split(b"\0")[0].decode("ascii", "replace")
            for i in range(0, len(text), length)
        ]
        fields = [_matrix(body, order, depth + 1) for _, body in rest[2:]]
        return [
            dict(zip(names, fields[i : i + len(names)], strict=True))
            for i in range(0, len(fields), max(1, len(names)))
        ]
    return None


def _numbers(part: tuple[int, bytes], order: str) -> np.ndarray:
    return np.frombuffer(part[1], f"{order}{STORED[part[0]]}")
