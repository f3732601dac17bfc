"""From a job to tensors: pictures at the model's stride, masks on every grid that needs them, and every
check there is.

All of this happens before the first U-Net pass, so that bad input is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .backbone.backbone import Backbone
from .core import masks as core_masks
from .images import describe, pad_to, read_mask, read_rgb, to_tensor, work_size
from .job import ImageLike, InputError, Job, Region, Settings

ASPECT_TOLERANCE = 0.02
KEY_THRESHOLD = 0.5  # how much of a key's cell a style mask must cover for the key to count


@dataclass
class PreparedStyle:
    """image: (1, 3, h, w); keep: key indices by grid and weight (h, w) at latent size, when there is a
    style mask.
    """

    image: Tensor
    latent: tuple[int, int]
    keep: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    weight: Tensor | None = None


@dataclass
class Prepared:
    """photo: the content as read; image: (1, 3, h, w) at work size; inner: (w, h) of the part that is not
    padding.

    full_masks: (N, H, W) at the photo's own size, before strength; masks: by grid, (N, h, w), strength
    included.
    """

    photo: Image.Image
    image: Tensor
    inner: tuple[int, int]
    latent: tuple[int, int]
    full_masks: Tensor
    masks: dict[tuple[int, int], Tensor]
    styles: list[PreparedStyle]
    notes: list[str]


def prepare(job: Job, backbone: Backbone, settings: Settings) -> Prepared:
    photo = read_rgb(job.content, "photo")
    inner, canvas = work_size(*photo.size, settings.size, backbone.stride, settings.fit)
    image = to_tensor(photo, inner, canvas)
    latent = (canvas[1] // backbone.latent_stride, canvas[0] // backbone.latent_stride)
    notes: list[str] = []
    full = read_masks(job, photo.size, notes)
    names = [region_name(region, i) for i, region in enumerate(job.regions)]
    grids = sorted({latent, *(site.grid(latent) for site in backbone.sites)})
    masks = {grid: on_grid(full, grid, inner, canvas) for grid in grids}
    core_masks.check_survival(masks[grids[0]], grids[0], names, [float(mask.sum()) for mask in full])
    strength = torch.tensor([region.strength for region in job.regions]).view(-1, 1, 1)
    masks = {grid: (mask * strength).to(backbone.device) for grid, mask in masks.items()}
    styles = [_prepare_style(region, i, backbone, settings) for i, region in enumerate(job.regions)]
    return Prepared(photo, image, inner, latent, full, masks, styles, notes)


def without_masks(job: Job) -> Job:
    """The job for a method that finds its regions itself: every style may go anywhere."""
    size = read_rgb(job.content, "photo").size
    everywhere = np.ones((size[1], size[0]), np.float32)
    return replace(job, regions=tuple(replace(region, mask=everywhere) for region in job.regions))


def region_name(region: Region, index: int) -> str:
    mask = "what is left over" if region.mask is None else describe(region.mask, "its mask")
    return f"region {index + 1} ({mask})"


def read_masks(job: Job, size: tuple[int, int], notes: list[str]) -> Tensor:
    """(N, H, W) at the photo's (W, H): read, checked, freed of overlap, the left-over region filled in."""
    found: list[Tensor | None] = [_read_region_mask(region, i, size) for i, region in enumerate(job.regions)]
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


def _read_region_mask(region: Region, index: int, size: tuple[int, int]) -> Tensor | None:
    if region.mask is None:
        return None
    name = region_name(region, index)
    mask = read_mask(region.mask, "mask")
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


def on_grid(full: Tensor, grid: tuple[int, int], inner: tuple[int, int], canvas: tuple[int, int]) -> Tensor:
    """The masks' area average on a grid, through the same resize and padding as the photo."""
    if inner == canvas:
        return core_masks.area_resample(full, grid)
    fitted = core_masks.area_resample(full, (inner[1], inner[0])).permute(1, 2, 0).numpy()
    return core_masks.area_resample(torch.from_numpy(pad_to(fitted, canvas).copy()).permute(2, 0, 1), grid)


def read_style_mask(region: Region, index: int, size: tuple[int, int]) -> Tensor | None:
    """The part of a region's painting that counts, (H, W) at the painting's (W, H), checked; None for all."""
    if region.style_mask is None:
        return None
    name = _style_mask_name(region.style_mask, index)
    mask = torch.from_numpy(
        match_size(read_mask(region.style_mask, "style mask"), size, name, "the style image")
    )
    core_masks.verify(mask.unsqueeze(0), [name])
    return mask


def _style_mask_name(mask: ImageLike, index: int) -> str:
    return f"style mask of region {index + 1} ({describe(mask, 'array')})"


def _prepare_style(region: Region, index: int, backbone: Backbone, settings: Settings) -> PreparedStyle:
    picture = read_rgb(region.style, "style image")
    inner, canvas = work_size(*picture.size, settings.size, backbone.stride, "resize")
    latent = (canvas[1] // backbone.latent_stride, canvas[0] // backbone.latent_stride)
    style = PreparedStyle(to_tensor(picture, inner, canvas), latent)
    mask = read_style_mask(region, index, picture.size)
    if mask is None:
        return style
    assert region.style_mask is not None
    name = _style_mask_name(region.style_mask, index)
    for grid in {site.grid(latent) for site in backbone.sites}:
        kept = (
            (core_masks.area_resample(mask.unsqueeze(0), grid).flatten() >= KEY_THRESHOLD)
            .nonzero()
            .squeeze(1)
        )
        if len(kept) == 0:
            raise InputError(
                f"{name}: it covers no whole cell of the {grid[0]}x{grid[1]} grid; enlarge it or raise --size"
            )
        style.keep[grid] = kept.to(backbone.device)
    style.weight = core_masks.area_resample(mask.unsqueeze(0), latent)[0].to(backbone.device)
    return style
