"""Masks: checked with numbers, freed of overlap, and averaged by area to every grid that needs them (Sec.
3.2-3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..job import InputError

VANISHED = 0.1  # a region no cell of which it covers to this share is lost on a grid


def overlap_matrix(source: int, target: int, device: torch.device | str = "cpu") -> Tensor:
    """(target, source): the share of each target cell that each source pixel covers. Rows sum to 1."""
    edges = torch.arange(target + 1, dtype=torch.float64) * (source / target)
    pixels = torch.arange(source, dtype=torch.float64)
    length = torch.minimum(edges[1:, None], pixels + 1) - torch.maximum(edges[:-1, None], pixels)
    return (length.clamp_min(0) * (target / source)).to(device=device, dtype=torch.float32)


def area_resample(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """Exact area average; (n, h, w) -> (n, *size). Borders come out fractional, as they should."""
    rows = overlap_matrix(masks.shape[-2], size[0], masks.device)
    columns = overlap_matrix(masks.shape[-1], size[1], masks.device)
    return (rows @ masks.float() @ columns.T).clamp(0, 1)


def verify(masks: Tensor, names: Sequence[str]) -> None:
    """Refuses masks that are not finite, leave [0, 1], or are empty; masks: (n, h, w)."""
    for mask, name in zip(masks, names, strict=True):
        if not torch.isfinite(mask).all():
            raise InputError(
                f"{name}: the mask holds values that are not numbers; save it again as an 8-bit PNG"
            )
        low, high = float(mask.min()), float(mask.max())
        if low < 0 or high > 1:
            raise InputError(f"{name}: the mask's values run from {low:g} to {high:g}; scale them to 0..1")
        if high == 0:
            raise InputError(f"{name}: the mask is empty (all black); paint the region white")


def separate(masks: Tensor) -> tuple[Tensor, float]:
    """Divides by the sum where masks overlap to more than 1. Returns the masks and the share of pixels
    touched.

    masks: (n, h, w). A rounding-sized excess is mended silently and does not count.
    """
    total = masks.sum(0)
    overlap = float((total > 1 + 1 / 255 + 1e-6).float().mean())
    return masks / total.clamp_min(1), overlap


def vanished(mask: Tensor) -> bool:
    """Whether a region is lost on a grid (h, w). A faint mask that covers whole cells is not."""
    return float(mask.max()) < VANISHED and float(mask.sum()) < 1


def check_survival(
    masks: Tensor, grid: tuple[int, int], names: Sequence[str], pixels: Sequence[float]
) -> None:
    """Refuses a region that vanishes on the coarsest controlled grid; masks: (n, *grid), pixels: its area
    in the photo.
    """
    for mask, name, area in zip(masks, names, pixels, strict=True):
        if vanished(mask):
            raise InputError(
                f"{name}: the region covers {area:.0f} px of the photo and vanishes on the "
                f"{grid[0]}x{grid[1]} grid "
                "where styles are applied; enlarge the mask or work at a larger --size"
            )
