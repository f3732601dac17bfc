"""Overlapping windows on a picture that is too large to be looked at in one pass.

As in MultiDiffusion (Bar-Tal et al. 2023, https://arxiv.org/abs/2302.08113) there is one latent, and one
noise; at every timestep each window gets a prediction of its own, and where windows overlap the predictions
are averaged, each weighing less towards the border of its window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

OVERLAP = 4  # neighbours share at least a window's side by this


@dataclass(frozen=True)
class Windows:
    """Windows of one size that cover a map row by row. One window covers a map that is no larger than it.

    whole: (h, w) of the map; side: the longest that a window may be; unit: what all borders are multiples of,
    `whole` and `side` too.
    """

    whole: tuple[int, int]
    side: int
    unit: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of a window."""
        return min(self.side, self.whole[0]), min(self.side, self.whole[1])

    @cached_property
    def corners(self) -> tuple[tuple[int, int], ...]:
        """(top, left) of each window."""
        rows, columns = (starts(extent, self.side, self.unit) for extent in self.whole)
        return tuple((top, left) for top in rows for left in columns)

    def __len__(self) -> int:
        return len(self.corners)

    def times(self, factor: int) -> Windows:
        """The same windows on a finer map, as the picture is to its latent."""
        h, w = self.whole
        return replace(self, whole=(h * factor, w * factor), side=self.side * factor, unit=self.unit * factor)

    def cut(self, values: Tensor, index: int, shrink: int = 1) -> Tensor:
        """What a window shows of a map (..., h, w), or of one that is coarser by `shrink`."""
        (top, left), (h, w) = self.corners[index], self.size
        rows = slice(top // shrink, (top + h) // shrink)
        return values[..., rows, left // shrink : (left + w) // shrink]

    def blend(self, parts: Iterable[Tensor]) -> Tensor:
        """One map (..., *whole) of the windows' own (..., *size), in their order; each is asked for when its
        turn comes. A window that is alone is not touched.
        """
        if len(self) == 1:
            (only,) = parts
            return only
        rows, columns = (self._weights(axis) for axis in (0, 1))
        total: Tensor | None = None
        for index, part in enumerate(parts):
            top, left = self.corners[index]
            if total is None:
                total = part.new_zeros(*part.shape[:-2], *self.whole)
            weight = (rows[top][:, None] * columns[left]).to(part)
            self.cut(total, index).add_(part * weight)
        assert total is not None
        return total

    def _weights(self, axis: int) -> dict[int, Tensor]:
        """By where a window begins along an axis, how much its cells count; at every cell 1 in all."""
        extent, length = self.whole[axis], self.size[axis]
        ramp = overlap(self.side, self.unit)
        found, total = {}, torch.zeros(extent)
        for start in starts(extent, self.side, self.unit):
            cells = torch.arange(length) + 0.5
            depth = torch.full((length,), float(ramp))  # cells to the nearest border inside the picture
            if start > 0:
                depth = torch.minimum(depth, cells)
            if start + length < extent:
                depth = torch.minimum(depth, length - cells)
            found[start] = weight = torch.sin(depth / ramp * (math.pi / 2)) ** 2
            total[start : start + length] += weight
        return {start: weight / total[start : start + length] for start, weight in found.items()}


def overlap(side: int, unit: int) -> int:
    """The least that two neighbours share."""
    return unit * max(1, round(side / unit / OVERLAP))


def starts(extent: int, side: int, unit: int) -> list[int]:
    """Where windows begin along an axis: evenly, from the first cell, the last one ending at the border."""
    if side >= extent:
        return [0]
    step = side - overlap(side, unit)
    if step < 1:
        raise ValueError(f"windows of {side} cannot overlap by {unit} and go on; they need {2 * unit}")
    last = (extent - side) // unit
    count = math.ceil((extent - side) / step)
    return [unit * (i * last // count) for i in range(count + 1)]
