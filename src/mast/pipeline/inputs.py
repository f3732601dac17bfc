"""What a job's files hold: every picture and mask, read and checked once, before any model is loaded.

What is shown later (contact sheets, masks as used) comes from here too, so no file is decoded twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from ..core.masks import area_resample
from ..images import centre_square, describe, read_photo, read_rgb, squared
from ..job import InputError, Job
from ..methods import Method, paints_one_style
from ..regions.masks import read_masks, read_style_mask, region_name, style_mask_name


@dataclass(frozen=True)
class StyleInput:
    """A painting, its name for people, and the part of it that counts, (H, W) at its own size; None: all."""

    picture: Image.Image
    name: str
    mask: Tensor | None = None
    mask_name: str = ""

    def squared(self) -> StyleInput:
        """The painting's centre square, and its mask's; one that has nothing there is refused."""
        mask = None if self.mask is None else _centre(self.mask)
        if mask is not None and not mask.any():
            raise InputError(
                f"{self.mask_name}: nothing of it is in the centre square of {self.name}, which is all that "
                "--fit square takes; choose --fit resize or pad, or another mask"
            )
        return replace(self, picture=squared(self.picture), mask=mask)


@dataclass(frozen=True)
class JobInputs:
    """masks: (N, H, W) at the photo's own size, before strength, disjoint; names: of the regions.

    auto: the masks were not read, because a method will find the regions itself; every style then has an
    equal share of every place. alpha: what of the photo is transparent (mode L), where anything is.
    """

    job: Job
    photo: Image.Image
    masks: Tensor
    names: tuple[str, ...]
    styles: tuple[StyleInput, ...]
    notes: tuple[str, ...] = ()
    auto: bool = False
    alpha: Image.Image | None = None

    @property
    def strengths(self) -> Tensor:
        """(N, 1, 1)."""
        return torch.tensor([region.strength for region in self.job.regions]).view(-1, 1, 1)

    def squared(self, side: int) -> JobInputs:
        """The centre squares of photo, masks and styles, the photo's `side` pixels wide: all that fit =
        "square" leaves of a job. A region that has nothing there is refused.
        """
        if self.photo.size == (side, side) and all(len(set(s.picture.size)) == 1 for s in self.styles):
            return self
        masks = area_resample(_centre(self.masks), (side, side))
        for mask, name in zip(masks, self.names, strict=True):
            if not mask.any():
                raise InputError(
                    f"{name}: nothing of it is in the centre square of the photo, which is all that --fit "
                    "square takes; choose --fit resize or pad, or another mask"
                )
        return replace(
            self,
            photo=squared(self.photo, side),
            masks=masks,
            styles=tuple(style.squared() for style in self.styles),
            alpha=None if self.alpha is None else squared(self.alpha, side),
        )

    def for_method(self, method: Method) -> JobInputs:
        """The same files as a method sees them: one that finds its regions itself sees no masks."""
        if method.auto == self.auto:
            return self
        if not method.auto:
            raise InputError(f"{method.name} goes by masks, and the job was read without them")
        return replace(self, masks=_everywhere(self.job, self.photo.size), notes=(), auto=True)


def read_job(job: Job | JobInputs, method: Method | None = None) -> JobInputs:
    """Reads and checks all that a job names, for a method (one that goes by masks, if None)."""
    if isinstance(job, JobInputs):
        return job if method is None else job.for_method(method)
    photo, alpha = read_photo(job.content)
    notes: list[str] = []
    auto = method is not None and method.auto
    masks = _everywhere(job, photo.size) if auto else read_masks(job, photo.size, notes)
    names = tuple(region_name(region, i) for i, region in enumerate(job.regions))
    return JobInputs(job, photo, masks, names, read_styles(job), tuple(notes), auto, alpha)


def read_styles(job: Job) -> tuple[StyleInput, ...]:
    """The paintings of a job, and the parts of them that count."""
    styles = []
    for i, region in enumerate(job.regions):
        picture = read_rgb(region.style, "style image")
        mask = read_style_mask(region, i, picture.size)
        mask_name = "" if region.style_mask is None else style_mask_name(region.style_mask, i)
        styles.append(StyleInput(picture, Path(describe(region.style, "style")).stem, mask, mask_name))
    return tuple(styles)


def _centre(masks: Tensor) -> Tensor:
    """(..., h, w) -> (..., s, s)."""
    left, upper, right, lower = centre_square((masks.shape[-1], masks.shape[-2]))
    return masks[..., upper:lower, left:right]


def _everywhere(job: Job, size: tuple[int, int]) -> Tensor:
    """Masks (N, H, W) for regions nobody has drawn: an equal share of each."""
    count = len(job.regions)
    return torch.ones(count, size[1], size[0]) / max(1, count)


def composited(method: Method, inputs: JobInputs) -> bool:
    """Whether a run makes a picture per region that must be joined."""
    return paints_one_style(method) and bool(inputs.job.regions)
