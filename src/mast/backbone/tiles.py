"""Encoding and decoding a large picture part by part, so that memory stays that of one part.

An autoencoder that only looks so many cells around itself (`reach`) gives the same picture either way: every
tile is made with that much around it, which is then cut off. One that normalises over all it sees, as Stable
Diffusion's does with its group norms, has no such reach; its tiles overlap and are blended, and colours may
differ a little from those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..core.windows import Windows

Part = Callable[[Tensor], Tensor]


def decoded_exactly(decode: Part, latent: Tensor, side: int, reach: int, stride: int) -> Tensor:
    """decode(latent) of (b, c, h, w), by tiles of `side` cells; (b, 3, stride h, stride w)."""
    h, w = latent.shape[-2:]
    if max(h, w) <= side:
        return decode(latent)
    picture: Tensor | None = None
    for top in range(0, h, side):
        for left in range(0, w, side):
            bottom, right = min(top + side, h), min(left + side, w)
            y, x = max(0, top - reach), max(0, left - reach)
            part = decode(latent[..., y : bottom + reach, x : right + reach])
            rows = slice((top - y) * stride, (bottom - y) * stride)
            columns = slice((left - x) * stride, (right - x) * stride)
            if picture is None:
                picture = part.new_empty(*part.shape[:2], h * stride, w * stride)
            there = picture[..., top * stride : bottom * stride, left * stride : right * stride]
            there.copy_(part[..., rows, columns])
    assert picture is not None
    return picture


def decoded_blended(decode: Part, latent: Tensor, windows: Windows, stride: int) -> Tensor:
    """decode(latent), by overlapping windows of the latent."""
    parts = (decode(windows.cut(latent, i)) for i in range(len(windows)))
    return windows.times(stride).blend(parts)


def encoded_blended(encode: Part, image: Tensor, windows: Windows, stride: int) -> Tensor:
    """encode(image) of (b, 3, h, w), by the same windows of the picture; windows: of the latent."""
    pixels = windows.times(stride)
    return windows.blend(encode(pixels.cut(image, i)) for i in range(len(windows)))
