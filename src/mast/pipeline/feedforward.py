"""`stylize` for feed-forward methods: no diffusion model, no inversion; pictures in, picture out."""

from __future__ import annotations

import time

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..core import masks as core_masks
from ..images import read_rgb, to_tensor, work_size
from ..job import Job, OnStep, Progress, Region, Result, Settings
from ..methods.feedforward.network import FeedForward
from ..regions.masks import read_masks, read_style_mask, without_masks
from .compose import apart, at_photo_size, check_parts, join, kept
from .prepare import on_grid
from .provenance import of_networks, provenance


@torch.inference_mode()
def paint(
    job: Job, method: FeedForward, settings: Settings, device: torch.device, on_step: OnStep | None = None
) -> Result:
    """Repaints every region of the job's photo by a network of its own."""
    began = time.perf_counter()
    photo = read_rgb(job.content, "photo")
    notes: list[str] = []
    masks = read_masks(without_masks(job) if method.auto else job, photo.size, [] if method.auto else notes)
    if apart(method):
        check_parts(masks, settings)
    inner, canvas = work_size(*photo.size, settings.size, method.stride, settings.fit)
    content = _unit(to_tensor(photo, inner, canvas)).to(device)
    small = on_grid(masks, (canvas[1], canvas[0]), inner, canvas)
    styles = [_style(region, i, method, settings, device) for i, region in enumerate(job.regions)]
    prepared = time.perf_counter()
    method.ready(device)
    loaded = time.perf_counter()

    def run(chosen: list[int], weights: Tensor) -> Image.Image:
        out = method.paint(
            content, [styles[i][0] for i in chosen], weights.to(device), [styles[i][1] for i in chosen]
        )
        return at_photo_size(out * 2 - 1, inner, photo)

    def tell(done: int, total: int, picture: Image.Image) -> None:
        if on_step is not None:
            on_step(Progress("paint", done, total, 0, None, lambda: np.asarray(picture)))

    parts: list[Image.Image] = []
    if apart(method):
        for i in range(len(styles)):
            own = small[i : i + 1]
            parts.append(run([i], torch.ones_like(own) if method.family == "global-single" else own))
            tell(i + 1, len(styles), parts[-1])
        image = join(parts, photo, masks, job, settings)
    else:
        strength = torch.tensor([region.strength for region in job.regions]).view(-1, 1, 1)
        image = run(list(range(len(styles))), small * strength)
        tell(1, 1, image)
        image = kept(image, photo, masks, settings)
    seconds = {
        "load": round(loaded - prepared, 3),
        "prepare": round(prepared - began, 3),
        "paint": round(time.perf_counter() - loaded, 3),
    }
    record = provenance(job, of_networks(method, device), method, settings, photo, masks)
    return Result(image, record, seconds, notes, tuple(parts))


def _style(
    region: Region, index: int, method: FeedForward, settings: Settings, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """The style image (1, 3, h, w) in [0, 1], and its mask (h, w) where there is one."""
    picture = read_rgb(region.style, "style image")
    inner, canvas = work_size(*picture.size, settings.size, method.stride, "resize")
    image = _unit(to_tensor(picture, inner, canvas)).to(device)
    mask = read_style_mask(region, index, picture.size)
    if mask is None:
        return image, None
    return image, core_masks.area_resample(mask.unsqueeze(0), (canvas[1], canvas[0]))[0].to(device)


def _unit(image: Tensor) -> Tensor:
    """[-1, 1] -> [0, 1]."""
    return (image + 1) / 2
