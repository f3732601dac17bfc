"""One picture per region, joined into one: what is done for methods that know a single style (App. A.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image, ImageFilter
from torch import Tensor

from .images import read_rgb
from .job import InputError, Job, Result, Settings
from .methods import Method
from .methods.compositing import composite, partition
from .prepare import read_masks

FEATHER = 3.0  # pixels over which an exact surrounding meets a repainted region, per 512 of the photo


def apart(method: Method) -> bool:
    """Whether a method paints its regions one by one."""
    return method.family != "regional-multi"


def check_parts(masks: Tensor, settings: Settings) -> None:
    """Refuses masks (N, H, W) that could not be joined, and a compositor that is not there, before any
    work.
    """
    if settings.composite == "poisson":
        try:
            import cv2  # noqa: F401
        except ImportError as error:
            raise InputError(
                "Poisson compositing needs OpenCV: pip install 'mast[composite]', or take another --composite"
            ) from error
    partition(_with_rest(masks.numpy()) if settings.keep_unassigned == "exact" else masks.numpy())


def _with_rest(masks: np.ndarray) -> np.ndarray:
    """What no region covers first, so that regions are put onto it; then the regions."""
    return np.concatenate([(1 - masks.sum(0, keepdims=True)).clip(0, 1), masks])


def join(
    parts: Sequence[Image.Image], photo: Image.Image, masks: Tensor, job: Job, settings: Settings
) -> Image.Image:
    """The parts, all of the photo's size, as one picture. A region's strength is how much of its part is
    seen over the photo.
    """
    pictures = [
        part if region.strength == 1 else Image.blend(photo, part, region.strength)
        for part, region in zip(parts, job.regions, strict=True)
    ]
    arrays, weights = [np.asarray(picture) for picture in pictures], masks.numpy()
    exact = settings.keep_unassigned == "exact"
    if exact:
        arrays, weights = [np.asarray(photo), *arrays], _with_rest(weights)
    joined = Image.fromarray(composite(arrays, weights, settings.composite))
    return Image.composite(joined, photo, repainted(masks)) if exact else joined


def repainted(masks: Tensor) -> Image.Image:
    """How much of each pixel the regions repaint, 0 outside all of them, rising over a few pixels inside."""
    cover = (masks.sum(0).clamp(0, 1) * 255).round().byte().numpy()
    radius = FEATHER * max(cover.shape) / 512
    soft = np.asarray(Image.fromarray(cover).filter(ImageFilter.GaussianBlur(radius)), np.float32)
    return Image.fromarray(np.minimum(np.clip(2 * soft - 255, 0, 255).round().astype(np.uint8), cover))


def recomposite(result: Result, job: Job, strategy: str) -> Result:
    """The same parts joined another way, without another run."""
    if not result.parts:
        raise InputError(
            f"{result.provenance['method']['name']} paints all regions at once; there is nothing to composite"
        )
    settings = Settings(**{**result.provenance["settings"], "composite": strategy})
    photo = read_rgb(job.content, "photo")
    masks = read_masks(job, photo.size, [])
    check_parts(masks, settings)
    record = {**result.provenance, "settings": {**result.provenance["settings"], "composite": strategy}}
    return replace(result, image=join(result.parts, photo, masks, job, settings), provenance=record)
