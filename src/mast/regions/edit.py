"""Editing masks: small pure functions that go together in any order.

A mask is float32 (h, w) from 0 to 1, soft or hard; a function gives a new one. Lengths are in pixels. What is
counted (holes, specks) is what a person sees: a pixel is inside from one half on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..job import InputError

INSIDE = 0.5
SOLID = 0.995  # what is below belongs to a soft edge
SNAP_RADIUS, SNAP_EVENNESS = 8, 1e-4  # of the guided filter: its window, and how much colour must change
COARSE = 1024  # pixels of the longer side at which the guided filter is fitted


def morphology() -> Any:
    """scipy.ndimage."""
    try:
        from scipy import ndimage
    except ImportError as error:
        raise InputError("editing masks needs scipy; pip install 'mast[segment]'") from error
    return ndimage


# ------------------------------------------------------------ one mask


def invert(mask: np.ndarray) -> np.ndarray:
    return 1 - mask


def feather(mask: np.ndarray, radius: float) -> np.ndarray:
    """An edge that fades over `radius` pixels to either side."""
    return _fair(morphology().gaussian_filter(mask, radius / 2, mode="nearest"))


def grow(mask: np.ndarray, radius: float) -> np.ndarray:
    """Every pixel the largest value within `radius`; a soft edge moves outwards and stays as soft."""
    return _over_disc(mask, radius, np.maximum, morphology().maximum_filter1d)


def shrink(mask: np.ndarray, radius: float) -> np.ndarray:
    """Every pixel the smallest value within `radius`. The border of the photo is no edge."""
    return _over_disc(mask, radius, np.minimum, morphology().minimum_filter1d)


def _over_disc(mask: np.ndarray, radius: float, pick: np.ufunc, along: Any) -> np.ndarray:
    """A disc is a pile of lines: one pass along the rows for each."""
    reach = int(radius)
    padded = np.pad(mask, ((reach, reach), (0, 0)), mode="edge")
    best = mask.copy()
    for dy in range(-reach, reach + 1):
        half = int((radius**2 - dy**2) ** 0.5)
        rows = padded[reach + dy : reach + dy + len(mask)]
        pick(best, along(rows, 2 * half + 1, axis=1, mode="nearest") if half else rows, out=best)
    return best


def fill_holes(mask: np.ndarray, largest: float = 1.0) -> np.ndarray:
    """Fills what the mask encloses on all sides, up to a share of the photo; soft rims of holes too."""
    label = morphology().label
    empty, count = label(mask < INSIDE)
    at_border = np.unique(np.concatenate([empty[0], empty[-1], empty[:, 0], empty[:, -1]]))
    sizes = np.bincount(empty.ravel(), minlength=count + 1)
    is_hole = sizes <= largest * mask.size
    is_hole[at_border] = is_hole[0] = False
    holes = is_hole[empty]
    rims, count = label(mask < SOLID)
    around = np.zeros(count + 1, bool)
    around[rims[holes]] = True
    around[rims[(mask < INSIDE) & ~holes]] = around[0] = False  # a rim that leads outside is none
    return np.where(holes | around[rims], 1, mask).astype(np.float32)


def drop_specks(mask: np.ndarray, smallest: float) -> np.ndarray:
    """Drops the parts of fewer than `smallest` pixels, with their soft edges."""
    ndimage = morphology()
    eight = np.ones((3, 3), bool)
    parts, count = ndimage.label(mask > 0, eight)
    sizes = ndimage.sum_labels(mask >= INSIDE, parts, np.arange(count + 1))
    return np.where((sizes >= smallest)[parts], mask, 0).astype(np.float32)


# ------------------------------------------------------------ several masks


def subtract(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What of the mask the other leaves. With `intersect` it adds up to the mask again."""
    return np.maximum(mask - other, 0)


def intersect(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.minimum(mask, other)


def unite(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.maximum(mask, other)


def in_front(masks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Masks without overlap: where some meet, the one that comes first has what it wants."""
    kept: list[np.ndarray] = []
    for mask in masks:
        taken = np.sum(kept, 0) if kept else np.zeros_like(mask)
        kept.append(np.minimum(mask, np.maximum(1 - taken, 0)))
    return kept


# ------------------------------------------------------------ edges


def snap(mask: np.ndarray, photo: Image.Image, radius: float = SNAP_RADIUS) -> np.ndarray:
    """The mask with its edges moved to those of the photo that are within `radius`."""
    near = (grow(mask, radius) > INSIDE) & (grow(invert(mask), radius) > INSIDE)
    return np.where(near, _fair(guided(mask[None], photo, radius)[0]), mask)


def guided(masks: np.ndarray, photo: Image.Image, radius: float = SNAP_RADIUS) -> np.ndarray:
    """The guided filter (He et al. 2013; its fast form, He and Sun 2015, https://arxiv.org/abs/1505.00996).

    masks: (n, h, w) of the photo's size or a smaller one. In every window a mask becomes the affine function
    of the photo's colour that fits it best, so that it turns where the colour does. The functions are fitted
    on a copy of at most COARSE pixels a side and applied to the whole photo. Values may leave [0, 1] by a
    little.
    """
    whole = np.asarray(photo.convert("RGB"), np.float32).transpose(2, 0, 1) / 255
    scale = max(1.0, max(photo.size) / COARSE)
    shape = (max(1, round(photo.width / scale)), max(1, round(photo.height / scale)))
    side = 2 * max(1, round(radius / scale)) + 1
    mean = morphology().uniform_filter
    box = lambda x: mean(x, (*(0 for _ in x.shape[2:]), side, side), mode="nearest")
    colour = _resized(whole, shape)
    target = _resized(masks, shape)
    middle, level = box(colour), box(target)
    spread = box(colour[:, None] * colour[None]) - middle[:, None] * middle[None]  # (3, 3, h, w)
    spread += SNAP_EVENNESS * np.eye(3, dtype=np.float32)[:, :, None, None]
    along = box(target[:, None] * colour[None]) - level[:, None] * middle[None]  # (n, 3, h, w)
    slope = np.einsum("hwij,njhw->nihw", np.linalg.inv(spread.transpose(2, 3, 0, 1)), along)
    offset = level - (slope * middle).sum(1)
    made = _resized(box(offset), photo.size).copy()
    for mask, slopes in zip(made, box(slope), strict=True):
        for channel, one in zip(whole, slopes, strict=True):  # one at a time: these are as large as the photo
            mask += _resized(one[None], photo.size)[0] * channel
    return made


def _resized(maps: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Maps (n, h, w) at (w, h)."""
    if maps.shape[1:] == (size[1], size[0]):
        return maps
    pictures = (Image.fromarray(one.astype(np.float32)) for one in maps)
    return np.stack([np.asarray(one.resize(size, Image.Resampling.BILINEAR)) for one in pictures])


def _fair(mask: np.ndarray) -> np.ndarray:
    return np.clip(mask, 0, 1).astype(np.float32)
