"""ONNX files of a few hundred bytes, written by hand: one node, from (1, 3, h, w) to (1, 1, h, w).

ONNX is protobuf: a field is its number and kind, then a number in groups of seven bits, or length and bytes.
"""

from __future__ import annotations

from pathlib import Path


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def block(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _tensor(name: str, channels: int) -> bytes:
    """ValueInfoProto: float (1, channels, any, any)."""
    sides = [number(1, 1), number(1, channels), block(2, "h"), block(2, "w")]
    shape = b"".join(block(1, side) for side in sides)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def write_network(path: Path, operator: str = "ReduceMax") -> Path:
    """operator: ReduceMax, ReduceMean, ... over the channels."""
    axes = block(1, "axes") + number(20, 7) + number(8, 1)  # ints [1]
    node = block(1, "image") + block(2, "map") + block(4, operator) + block(5, axes)
    graph = block(1, node) + block(2, "tiny") + block(11, _tensor("image", 3)) + block(12, _tensor("map", 1))
    path.write_bytes(number(1, 7) + block(7, graph) + block(8, block(1, "") + number(2, 13)))
    return path
