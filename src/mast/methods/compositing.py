"""Many pictures into one, by masks: what methods that know only one style need (App. A.8).

Pure functions on numpy arrays. A picture is (H, W, 3) uint8; masks are (N, H, W). The four strategies take
binary masks that tile the picture, as `partition` makes them; `composite` does both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..job import InputError

TOLERANCE = 0.02  # how far from 1 the masks' sum may be at a pixel: 8-bit soft edges need .004
SIGMA = 2.0  # the mask's own blur before its pyramid
# The kernels OpenCV takes instead of a sampled Gaussian when it chooses sigma itself, by size.
SMALL_KERNELS = {
    3: np.array([1, 2, 1]) / 4,
    5: np.array([1, 4, 6, 4, 1]) / 16,
    7: np.array([2, 7, 14, 18, 14, 7, 2]) / 64,
    9: np.array([4, 13, 30, 51, 60, 51, 30, 13, 4]) / 256,
}
BURT = SMALL_KERNELS[5]  # also the generating kernel of Burt and Adelson's pyramid
ERODED = 3  # pixels that seamlessClone takes off every edge of its mask
MARGIN = ERODED + 2  # so that it takes them, and its own ring of zeros, off what is added around the picture


def composite(
    pictures: Sequence[np.ndarray], masks: np.ndarray, strategy: str, released: bool = False
) -> np.ndarray:
    """One picture (H, W, 3) uint8 out of N of them by N masks (N, H, W), 0..1, that sum to 1.

    released: OpenCV's own clone instead of ours, where there are two.
    """
    if strategy not in COMPOSITORS:
        raise InputError(f"composite is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    if len(pictures) != len(masks):
        raise InputError(f"{len(pictures)} pictures and {len(masks)} masks; every picture needs its mask")
    for i, picture in enumerate(pictures):
        if picture.dtype != np.uint8 or picture.shape != (*masks.shape[1:], 3):
            raise InputError(
                f"picture {i + 1} is {picture.dtype} {picture.shape}; the masks ask for uint8 "
                f"{(*masks.shape[1:], 3)}"
            )
    chosen = plain_poisson if released and strategy == "poisson" else COMPOSITORS[strategy]
    return chosen(pictures, partition(masks))


def partition(masks: np.ndarray) -> np.ndarray:
    """Masks (N, H, W), 0..1, as bool: each pixel belongs to its largest mask, the first of equal ones.

    Masks that leave pixels over, or claim them twice, are refused: a compositor has nothing to put there.
    """
    if masks.ndim != 3 or masks.size == 0:
        raise InputError(f"masks of shape {masks.shape}; compositing needs at least one, as (N, H, W)")
    cover = masks.sum(0, dtype=np.float32)
    bare, double = float((cover < 1 - TOLERANCE).mean()), float((cover > 1 + TOLERANCE).mean())
    if bare or double:
        wrong = [f"{bare:.1%} of the picture is uncovered"] if bare else []
        wrong += [f"{double:.1%} of the picture is covered twice"] if double else []
        way_out = (
            "give one region no mask so that it takes the rest, or --keep exact"
            if bare
            else "make the masks disjoint"
        )
        raise InputError(f"the masks do not tile, which compositing needs: {' and '.join(wrong)}; {way_out}")
    return masks.argmax(0) == np.arange(len(masks)).reshape(-1, 1, 1)


def hard(pictures: Sequence[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """Eq. hard_compositing: every pixel from the picture that owns it."""
    result = np.zeros_like(pictures[0])
    for picture, mask in zip(pictures, masks, strict=True):
        result[mask] = picture[mask]
    return result


# ------------------------------------------------------------------------------------------------ alpha


def radius(area: float) -> int:
    """eta_i of a region of so many pixels: a third of the radius of a disc of that area, from 1 to 8."""
    return max(1, math.floor(min(8.0, math.sqrt(area / math.pi) / 3)))


def alpha_weights(masks: np.ndarray) -> np.ndarray:
    """alpha_i of Eq. alpha_compositing, (N, H, W) float32: feathered masks, divided by their sum."""
    soft = np.stack([blur(mask, automatic_kernel(2 * radius(mask.sum()) + 1)) for mask in masks])
    return soft / soft.sum(0)  # a pixel's own mask is never 0 there, so neither is the sum


def alpha(pictures: Sequence[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """Eq. alpha_compositing: the pictures mixed by feathered masks."""
    total = np.zeros(pictures[0].shape, np.float32)
    for picture, weight in zip(pictures, alpha_weights(masks), strict=True):
        total += weight[..., None] * picture
    return _to_bytes(total)


def automatic_kernel(size: int) -> np.ndarray:
    """The 1-d Gaussian of an odd size that OpenCV takes when no sigma is given."""
    return SMALL_KERNELS.get(size, gaussian(size, 0.3 * ((size - 1) * 0.5 - 1) + 0.8))


def gaussian(size: int, sigma: float) -> np.ndarray:
    """A sampled Gaussian of an odd size whose sum is 1."""
    weights = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def blur(array: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """(H, W, ...) with a symmetric kernel along both axes, float32; mirrored at the outermost pixels' centres
    (OpenCV's reflect-101), any number of times where the picture is smaller than the kernel.
    """
    result = array.astype(np.float32)
    for axis in (0, 1):
        reach, length = len(kernel) // 2, result.shape[axis]
        borders = [(reach, reach) if a == axis else (0, 0) for a in range(result.ndim)]
        padded = np.moveaxis(np.pad(result, borders, mode="reflect"), axis, 0)
        summed = sum(np.float32(weight) * padded[i : i + length] for i, weight in enumerate(kernel))
        result = np.moveaxis(np.asarray(summed), 0, axis)
    return result


# ------------------------------------------------------------------------------------------------ Poisson


def poisson(pictures: Sequence[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """Eq. poisson_compositing: C_1 is picture 1; the others are cloned into it in their order by OpenCV."""
    return _in_order(_clone, pictures, masks)


def plain_poisson(pictures: Sequence[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """The same by nothing but `seamlessClone`: with the shift at the picture's border, the lost rim and the
    rounding down that `_clone` guards against.
    """
    return _in_order(_plain_clone, pictures, masks)


def _in_order(
    clone: Callable[..., np.ndarray], pictures: Sequence[np.ndarray], masks: np.ndarray
) -> np.ndarray:
    cv2 = opencv()
    canvas = pictures[0]
    for picture, mask in zip(pictures[1:], masks[1:], strict=True):
        if mask.any():
            canvas = clone(cv2, picture, canvas, mask)
    return canvas.copy()


def _plain_clone(cv2: Any, picture: np.ndarray, canvas: np.ndarray, mask: np.ndarray) -> np.ndarray:
    region = mask.astype(np.uint8) * 255
    left, top, w, h = cv2.boundingRect(region)
    centre = (left + w // 2, top + h // 2)
    try:
        cloned: np.ndarray = cv2.seamlessClone(picture, canvas, region, centre, cv2.NORMAL_CLONE)
    except cv2.error:  # a few pixels, of which its erosion leaves nothing
        return np.where(mask[..., None], picture, canvas)
    return cloned


def _clone(cv2: Any, picture: np.ndarray, canvas: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """seamlessClone with NORMAL_CLONE at the centre of the mask's bounding box.

    OpenCV clears the outermost pixels of its mask and then takes three more off every edge, so at the
    picture's border a region would lose a rim, and its bounding box would not be the one the centre was
    taken from. Picture, canvas and region therefore go on for a margin beyond the border.
    """
    height, width = mask.shape
    around = ((MARGIN, MARGIN), (MARGIN, MARGIN))
    region = np.pad(mask, around, mode="edge").astype(np.uint8) * 255
    region[0], region[-1], region[:, 0], region[:, -1] = 0, 0, 0, 0
    if not cv2.erode(region, np.ones((2 * ERODED + 1,) * 2, np.uint8)).any():
        return np.where(mask[..., None], picture, canvas)  # too thin to be cloned: better pasted than lost
    source, target = (np.pad(p, (*around, (0, 0)), mode="symmetric") for p in (picture, canvas))
    left, top, w, h = cv2.boundingRect(region)
    centre = (left + w // 2, top + h // 2)  # OpenCV subtracts the same halves again: nothing shifts
    # OpenCV cuts its result down to whole levels, which darkens the picture by up to one for every region.
    # The negatives are cut the other way; of the two the one nearer to the canvas drifts nowhere.
    # It also writes into the mask it is given.
    low = cv2.seamlessClone(source, target, region.copy(), centre, cv2.NORMAL_CLONE)
    high = 255 - cv2.seamlessClone(255 - source, 255 - target, region, centre, cv2.NORMAL_CLONE)
    cloned = np.clip(target, np.minimum(low, high), np.maximum(low, high))
    return cloned[MARGIN : MARGIN + height, MARGIN : MARGIN + width]


def opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise InputError(
            "Poisson compositing needs OpenCV; pip install 'mast[composite]', or choose hard, alpha or "
            "laplacian"
        ) from error
    return cv2


# ---------------------------------------------------------------------------------------------- Laplacian


def levels(height: int, width: int) -> int:
    """L of a picture: the coarsest level is the one whose shorter side is 4 to 8 pixels, as it is 4 with the
    paper's L = 7 at 512 x 512; at least 1.
    """
    return max(1, int(math.log2(min(height, width))) - 2)


def laplacian(pictures: Sequence[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """Eq. laplacian_level_blending: C_1 is picture 1; the others are blended into it in their order."""
    canvas = pictures[0].astype(np.float32)
    count, kernel = levels(*canvas.shape[:2]), gaussian(2 * math.ceil(4 * SIGMA) + 1, SIGMA)
    for picture, mask in zip(pictures[1:], masks[1:], strict=True):
        canvas = blend(picture.astype(np.float32), canvas, blur(mask, kernel), count)
    return _to_bytes(canvas)


def blend(picture: np.ndarray, canvas: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    """The picture over the canvas, (H, W, 3) float32, level by level; weight: (H, W), 0..1."""
    shares = gaussian_pyramid(weight[..., None], count)
    new, old = laplacian_pyramid(picture, count), laplacian_pyramid(canvas, count)
    mixed = [w * a + (1 - w) * b for w, a, b in zip(shares, new, old, strict=True)]
    return reconstruct(mixed)


def gaussian_pyramid(array: np.ndarray, count: int) -> list[np.ndarray]:
    """(H, W, c) and `count` coarser levels, each half the size, rounded up."""
    pyramid = [array.astype(np.float32)]
    for _ in range(count):
        pyramid.append(blur(pyramid[-1], BURT)[::2, ::2])
    return pyramid


def laplacian_pyramid(array: np.ndarray, count: int) -> list[np.ndarray]:
    """What each level adds to the next coarser one, and the coarsest level itself."""
    smooth = gaussian_pyramid(array, count)
    fine = [a - expand(b, a.shape[:2]) for a, b in pairwise(smooth)]
    return [*fine, smooth[-1]]


def reconstruct(pyramid: Sequence[np.ndarray]) -> np.ndarray:
    """The array (H, W, c) of a Laplacian pyramid, whatever the parity of its sizes."""
    result = pyramid[-1]
    for level in reversed(pyramid[:-1]):
        result = level + expand(result, level.shape[:2])
    return result


def expand(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w, c) at (H, W), twice the size: its pixels on the even ones, the others from those around.

    Divided by what the same makes of ones, so that a flat picture stays flat at borders and one pixel wide.
    """
    spread = np.zeros((*size, array.shape[2] + 1), np.float32)
    spread[::2, ::2, :-1], spread[::2, ::2, -1] = array, 1
    spread = blur(spread, BURT)
    return spread[..., :-1] / spread[..., -1:]


def _to_bytes(array: np.ndarray) -> np.ndarray:
    return array.round().clip(0, 255).astype(np.uint8)


COMPOSITORS: dict[str, Callable[[Sequence[np.ndarray], np.ndarray], np.ndarray]] = {
    "hard": hard,
    "alpha": alpha,
    "poisson": poisson,
    "laplacian": laplacian,
}
STRATEGIES = tuple(COMPOSITORS)
