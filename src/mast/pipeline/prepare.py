"""From a job to tensors: pictures at the model's stride, masks on every grid that needs them, and every
check there is.

All of this happens before the first U-Net pass, so that bad input is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from PIL import Image
from torch import Tensor

from ..backbone.backbone import Backbone
from ..core import masks as core_masks
from ..images import pad_to, read_rgb, to_tensor, work_size
from ..job import InputError, Job, Region, Settings
from ..regions.masks import read_masks, read_style_mask, region_name, style_mask_name

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


def on_grid(full: Tensor, grid: tuple[int, int], inner: tuple[int, int], canvas: tuple[int, int]) -> Tensor:
    """The masks' area average on a grid, through the same resize and padding as the photo."""
    if inner == canvas:
        return core_masks.area_resample(full, grid)
    fitted = core_masks.area_resample(full, (inner[1], inner[0])).permute(1, 2, 0).numpy()
    return core_masks.area_resample(torch.from_numpy(pad_to(fitted, canvas).copy()).permute(2, 0, 1), grid)


def _prepare_style(region: Region, index: int, backbone: Backbone, settings: Settings) -> PreparedStyle:
    picture = read_rgb(region.style, "style image")
    inner, canvas = work_size(*picture.size, settings.size, backbone.stride, "resize")
    latent = (canvas[1] // backbone.latent_stride, canvas[0] // backbone.latent_stride)
    style = PreparedStyle(to_tensor(picture, inner, canvas), latent)
    mask = read_style_mask(region, index, picture.size)
    if mask is None:
        return style
    assert region.style_mask is not None
    name = style_mask_name(region.style_mask, index)
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
