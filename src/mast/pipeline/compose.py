"""How a run ends: parts joined into one picture (App. A.8), the photo kept outside all regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image, ImageFilter
from torch import Tensor

from ..images import to_array, with_alpha
from ..job import InputError, Result, Settings
from ..methods.compositing import composite, opencv, partition
from .inputs import JobInputs

FEATHER = 3.0  # pixels over which an exact surrounding meets a repainted region, per 512 of the photo


def check_parts(masks: Tensor, settings: Settings) -> None:
    """Refuses masks (N, H, W) that could not be joined, and a compositor that is not there, before any
    work.
    """
    if settings.composite == "poisson":
        opencv()
    partition(_with_rest(masks.numpy()) if settings.keep_unassigned == "exact" else masks.numpy())


def _with_rest(masks: np.ndarray) -> np.ndarray:
    """What no region covers first, so that regions are put onto it; then the regions."""
    return np.concatenate([(1 - masks.sum(0, keepdims=True)).clip(0, 1), masks])


def join_parts(
    parts: Sequence[Image.Image], inputs: JobInputs, settings: Settings, released: bool = False
) -> Image.Image:
    """The parts, all of the photo's size, as one picture. A region's strength is how much of its part is
    seen over the photo. released: by OpenCV's own clone where it is Poisson's turn.
    """
    photo = inputs.photo
    pictures = [
        part if region.strength == 1 else Image.blend(photo, part, region.strength)
        for part, region in zip(parts, inputs.job.regions, strict=True)
    ]
    arrays, weights = [np.asarray(picture) for picture in pictures], inputs.masks.numpy()
    if settings.keep_unassigned == "exact":
        arrays, weights = [np.asarray(photo), *arrays], _with_rest(weights)
    return keep_surroundings(
        Image.fromarray(composite(arrays, weights, settings.composite, released)), inputs, settings
    )


def at_photo_size(picture: Tensor, inner: tuple[int, int], photo: Image.Image) -> Image.Image:
    """What a network gives, (1, 3, h, w) in [-1, 1], without its padding and as large as the photo."""
    image = Image.fromarray(to_array(picture)[: inner[1], : inner[0]])
    return image if image.size == photo.size else image.resize(photo.size, Image.Resampling.LANCZOS)


def keep_surroundings(picture: Image.Image, inputs: JobInputs, settings: Settings) -> Image.Image:
    """The picture with the photo's own pixels outside all regions, where the settings ask for them."""
    if settings.keep_unassigned != "exact":
        return picture
    return Image.composite(picture, inputs.photo, _repainted(inputs.masks))


def _repainted(masks: Tensor) -> Image.Image:
    """How much of each pixel the regions repaint, 0 outside all of them, rising over a few pixels inside."""
    cover = (masks.sum(0).clamp(0, 1) * 255).round().byte().numpy()
    radius = FEATHER * max(cover.shape) / 512
    soft = np.asarray(Image.fromarray(cover).filter(ImageFilter.GaussianBlur(radius)), np.float32)
    return Image.fromarray(np.minimum(np.clip(2 * soft - 255, 0, 255).round().astype(np.uint8), cover))


def finished(
    parts: Sequence[Image.Image], inputs: JobInputs, settings: Settings, join: bool, released: bool = False
) -> Image.Image:
    """The picture that a run's parts make; join: there is one part per region; released: as its method was.
    What was transparent stays.
    """
    if join:
        image = join_parts(parts, inputs, settings, released)
    else:
        image = keep_surroundings(parts[0], inputs, settings)
    return image if inputs.alpha is None else with_alpha(image, inputs.alpha, inputs.photo)


def recomposite(result: Result, strategy: str) -> Result:
    """The parts of a finished run joined another way, without another run."""
    if not result.parts:
        raise InputError(
            f"{result.provenance['method']['name']} paints all regions at once; there is nothing to composite"
        )
    recorded = {**result.provenance["settings"], "composite": strategy}
    settings, inputs = Settings(**recorded), result.inputs
    check_parts(inputs.masks, settings)
    record = {**result.provenance, "settings": recorded}
    released = bool(record["method"].get("released", False))
    return replace(result, image=finished(result.parts, inputs, settings, True, released), provenance=record)
