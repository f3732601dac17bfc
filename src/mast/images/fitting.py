"""Pictures fitted to the model's stride, and as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor


def work_size(
    width: int, height: int, size: int, stride: int, fit: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """(w, h) a picture is resized to so that its longer side is about `size`, and (w, h) of the canvas, in
    whole strides.

    resize, and square, whose pictures are cropped before: both are the nearest multiples of the stride.
    pad: the aspect is kept to the pixel and the canvas rounded up.
    """
    scale = size / max(width, height)
    if fit in ("resize", "square"):
        sides = tuple(max(stride, round(side * scale / stride) * stride) for side in (width, height))
        return (sides[0], sides[1]), (sides[0], sides[1])
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    return inner, (-(-inner[0] // stride) * stride, -(-inner[1] // stride) * stride)


def centre_square(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """(left, upper, right, lower) of the largest square in the middle of a picture of (w, h)."""
    side = min(size)
    left, upper = (size[0] - side) // 2, (size[1] - side) // 2
    return left, upper, left + side, upper + side


def squared(image: Image.Image, side: int | None = None) -> Image.Image:
    """The picture's centre square, resized where a side is given: how the paper fits what it is given."""
    box = centre_square(image.size)
    image = image if box == (0, 0, *image.size) else image.crop(box)
    wanted = image.size if side is None else (side, side)
    return image if image.size == wanted else image.resize(wanted, Image.Resampling.LANCZOS)


def to_tensor(image: Image.Image, inner: tuple[int, int], canvas: tuple[int, int]) -> Tensor:
    """RGB -> (1, 3, h, w) in [-1, 1], resized to `inner` (w, h) and mirrored out to the canvas."""
    if image.size != inner:
        image = image.resize(inner, Image.Resampling.LANCZOS)
    import torch

    array = pad_to(np.asarray(image), canvas)
    return torch.from_numpy(array.copy()).permute(2, 0, 1).unsqueeze(0).float() / 127.5 - 1


def pad_to(array: np.ndarray, canvas: tuple[int, int]) -> np.ndarray:
    """(h, w, ...) mirrored at the right and lower border up to (w, h) of the canvas."""
    down, right = canvas[1] - array.shape[0], canvas[0] - array.shape[1]
    if not down and not right:
        return array
    mirror = down <= array.shape[0] and right <= array.shape[1]
    borders = [(0, down), (0, right)] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, borders, mode="symmetric" if mirror else "edge")


def to_array(tensor: Tensor) -> np.ndarray:
    """(1, 3, h, w) in [-1, 1] -> (h, w, 3) uint8, rounded."""
    return ((tensor[0].clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0).cpu().numpy()
