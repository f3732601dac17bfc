"""The masks of a job: read, checked, freed of overlap, the left-over region filled in."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..core import masks as core_masks
from ..images import describe, read_mask
from ..job import ImageLike, InputError, Job, Region

ASPECT_TOLERANCE = 0.02


def region_name(region: Region, index: int) -> str:
    mask = "what is left over" if region.mask is None else describe(region.mask, "its mask")
    return f"region {index + 1} ({mask})"


def read_masks(job: Job, size: tuple[int, int], notes: list[str]) -> Tensor:
    """(N, H, W) at the photo's (W, H): read, checked, freed of overlap, the left-over region filled in."""
    found = [_read_region_mask(region, i, job.content, size) for i, region in enumerate(job.regions)]
    given = [mask for mask in found if mask is not None]
    core_masks.verify(
        torch.stack(given) if given else torch.zeros(0, size[1], size[0]),
        [region_name(region, i) for i, region in enumerate(job.regions) if region.mask is not None],
    )
    open_regions = [i for i, mask in enumerate(found) if mask is None]
    if len(open_regions) > 1:
        raise InputError(
            f"regions {', '.join(str(i + 1) for i in open_regions)} have no mask; only one region can "
            "take what is left over, "
            "so give the others a mask"
        )
    separated, overlap = (
        core_masks.separate(torch.stack(given)) if given else (torch.zeros(0, size[1], size[0]), 0.0)
    )
    if overlap:
        notes.append(f"masks overlap on {overlap:.1%} of the photo; there each counts by its share")
    if open_regions:
        rest = (1 - separated.sum(0)).clamp(0, 1)
        if float(rest.max()) == 0:
            raise InputError(
                f"region {open_regions[0] + 1} has no mask, and the other masks leave nothing over; give "
                "it a mask"
            )
        separated = torch.cat([separated[: open_regions[0]], rest.unsqueeze(0), separated[open_regions[0] :]])
    return separated


def _read_region_mask(region: Region, index: int, photo: ImageLike, size: tuple[int, int]) -> Tensor | None:
    from .parts import read_part  # which fits masks as this module does

    if region.mask is None:
        return None
    name = region_name(region, index)
    mask = read_part(region.mask, photo, size, f"mask of region {index + 1}")
    core_masks.verify(torch.from_numpy(mask).unsqueeze(0), [name])  # before a resize clips what is wrong
    return torch.from_numpy(match_size(mask, size, name, "the photo"))


def match_size(mask: np.ndarray, size: tuple[int, int], name: str, other: str) -> np.ndarray:
    """A mask (h, w) at (W, H) of its picture; another aspect ratio is refused."""
    height, width = mask.shape
    if (width, height) == size:
        return mask
    if abs((width / height) / (size[0] / size[1]) - 1) > ASPECT_TOLERANCE:
        raise InputError(
            f"{name}: the mask is {width}x{height}, {other} {size[0]}x{size[1]}: another shape; make the "
            f"mask on {other} itself"
        )
    resized = Image.fromarray(mask).resize(size, Image.Resampling.BILINEAR)
    return np.clip(np.asarray(resized), 0, 1).copy()


def read_style_mask(region: Region, index: int, size: tuple[int, int]) -> Tensor | None:
    """The part of a region's painting that counts, (H, W) at the painting's (W, H), checked; None for all."""
    if region.style_mask is None:
        return None
    name = style_mask_name(region.style_mask, index)
    given = read_mask(region.style_mask, f"style mask of region {index + 1}")
    mask = torch.from_numpy(match_size(given, size, name, "the style image"))
    core_masks.verify(mask.unsqueeze(0), [name])
    return mask


def style_mask_name(mask: ImageLike, index: int) -> str:
    return f"style mask of region {index + 1} ({describe(mask, 'array')})"
