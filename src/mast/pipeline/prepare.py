"""From what was read to what an engine works on: pictures at its stride, and masks on any grid.

All of this happens before the first pass, so that bad input is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import masks as core_masks
from ..images import pad_to, to_tensor, work_size
from ..job import InputError, Settings
from .inputs import JobInputs, StyleInput

KEY_THRESHOLD = 0.5  # how much of a key's cell a style mask must cover for the key to count


@dataclass(frozen=True)
class PreparedStyle:
    """image: (1, 3, h, w) in [-1, 1] at work size."""

    image: Tensor
    given: StyleInput

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of the image."""
        return self.image.shape[-2], self.image.shape[-1]

    def mask_on(self, grid: tuple[int, int]) -> Tensor | None:
        """The part of the painting that counts, averaged on a grid (h, w); None for all of it."""
        mask = self.given.mask
        return None if mask is None else core_masks.area_resample(mask.unsqueeze(0), grid)[0]

    def keys_on(self, grid: tuple[int, int]) -> Tensor | None:
        """The indices of the keys of a grid that the style mask leaves; None for all."""
        cover = self.mask_on(grid)
        if cover is None:
            return None
        left = (cover.flatten() >= KEY_THRESHOLD).nonzero().squeeze(1)
        if len(left) == 0:
            raise InputError(
                f"{self.given.mask_name}: it covers no whole cell of the {grid[0]}x{grid[1]} grid; enlarge "
                "it or raise --size"
            )
        return left


@dataclass(frozen=True)
class Prepared:
    """image: (1, 3, h, w) in [-1, 1] at work size; inner: (w, h) of the part of it that is not padding;
    canvas: (w, h) of all of it.
    """

    inputs: JobInputs
    settings: Settings
    image: Tensor
    inner: tuple[int, int]
    canvas: tuple[int, int]
    styles: tuple[PreparedStyle, ...]

    def masks_on(self, grid: tuple[int, int]) -> Tensor:
        """The regions' area average (N, h, w) on a grid, through the same resize and padding as the photo."""
        full = self.inputs.masks
        if self.inner == self.canvas:
            return core_masks.area_resample(full, grid)
        fitted = core_masks.area_resample(full, (self.inner[1], self.inner[0])).permute(1, 2, 0).numpy()
        padded = torch.from_numpy(pad_to(fitted, self.canvas).copy()).permute(2, 0, 1)
        return core_masks.area_resample(padded, grid)


def prepare(inputs: JobInputs, settings: Settings, stride: int) -> Prepared:
    """Photo and styles at the settings' size, in whole strides; squares of them, where the fit is that. The
    inputs to go on with are those of what is returned.
    """
    assert isinstance(settings.size, int), "an engine settles the size first"
    if settings.fit == "square":
        inputs = inputs.squared(settings.size)
    inner, canvas = work_size(*inputs.photo.size, settings.size, stride, settings.fit)
    # A painting is seen at a window's scale: every window shows all of its style.
    longest = min(settings.size, settings.windows) if isinstance(settings.windows, int) else settings.size
    styles = []
    for style in inputs.styles:
        style_inner, style_canvas = work_size(*style.picture.size, longest, stride, "resize")
        styles.append(PreparedStyle(to_tensor(style.picture, style_inner, style_canvas), style))
    return Prepared(inputs, settings, to_tensor(inputs.photo, inner, canvas), inner, canvas, tuple(styles))
