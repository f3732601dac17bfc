"""Watching a run: a method that paints as MAST does and shows every joint attention to an onlooker.

Nothing is kept of a site but what the onlooker keeps; `Tally` keeps running sums, so that a whole data set
takes no more memory than one picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.sites import Site
from ..core.attention import Joint, Partition, RowStatistics
from ..job import InputError, Job, OnStep, Result, Settings
from ..methods import Mast, Scene
from ..pipeline.stylize import stylize
from .rows import Moments, lama_shift, moments


@dataclass(frozen=True)
class Sight:
    """The joint attention of one site at one step.

    step counts the denoising moves from 0; t is the timestep. partitions: the styles, then the content;
    masks: (N, q); targets: (N + 1, q), content last; tau, gap: (h,), as the run used them.
    """

    sample: int
    step: int
    t: int
    site: Site
    grid: tuple[int, int]
    partitions: tuple[Partition, ...]
    masks: Tensor
    targets: Tensor
    tau: Tensor
    gap: Tensor | None
    content_statistics: RowStatistics | None

    @property
    def n(self) -> int:
        """The number of styles."""
        return len(self.partitions) - 1

    @cached_property
    def one(self) -> Tensor:
        return torch.ones_like(self.tau)

    @cached_property
    def shift(self) -> Tensor:
        """What LAMA adds to the logits, (N + 1, h, q)."""
        return lama_shift(self.partitions, self.targets, self.content_statistics)[0]

    @cached_property
    def plain(self) -> Moments:
        """Of all partitions at all queries, at tau = 1."""
        return moments(self.partitions, self.one)

    @cached_property
    def sharpened(self) -> Moments:
        """Of the partitions that a query gives any mass, at the run's tau."""
        return moments(self.partitions, self.tau, self.targets > 0)


Watch = Callable[[Sight], None]


@dataclass(frozen=True)
class Observer(Mast):
    """MAST, or with its switches off any row of the ablation, that shows each site to `watch`."""

    watch: Watch | None = field(default=None, compare=False, repr=False)
    sample_index: int = field(default=0, compare=False, repr=False)

    def options(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(Mast)}

    def joint(self, scene: Scene, site: Site, query: Tensor) -> Joint:
        found = super().joint(scene, site, query)
        if self.watch is None:
            return found
        content = scene.content_at(site)
        styles, own = self.partitions(scene, site, query, content)
        self.watch(
            Sight(
                sample=self.sample_index,
                step=len(scene.schedule) - 1 - scene.step,
                t=int(scene.schedule.timesteps[scene.step]),
                site=site,
                grid=site.grid(scene.latent),
                partitions=(*styles, own),
                masks=scene.masks_at(site),
                targets=self.masses(scene, site),
                tau=found.tau,
                gap=found.gap,
                content_statistics=content.statistics,
            )
        )
        return found


def observe(
    jobs: Sequence[Job],
    backbone: Backbone,
    settings: Settings,
    method: Mast,
    watch: Watch,
    on_step: OnStep | None = None,
    first: int = 0,
) -> Iterator[Result]:
    """Runs the method on job after job under the onlooker's eyes, and gives each result.

    first: the number of the first job; each counts as a sample of its own.
    """
    for i, job in enumerate(jobs, first):
        if not job.regions:
            raise InputError(f"job {i + 1} has no region, so there is no joint attention to look at")
        watcher = Observer(
            **{f.name: getattr(method, f.name) for f in fields(Mast)}, watch=watch, sample_index=i
        )
        yield stylize(job, backbone, watcher, settings, on_step)


class Place(NamedTuple):
    """Where an observation was made: number of styles, site, step (from 0) and its timestep."""

    n: int
    site: int
    step: int
    t: int


class Tally:
    """Running sums of named numbers, by cell and head. NaN (nothing to measure there) is not counted."""

    def __init__(self) -> None:
        self.cells: dict[Place, dict[str, np.ndarray]] = {}
        self.samples: dict[int, set[int]] = {}  # by number of styles

    def add(self, sight: Sight, name: str, values: Tensor) -> None:
        """values: (h,), one per head."""
        cell = self.cells.setdefault(Place(sight.n, sight.site.index, sight.step, sight.t), {})
        self.samples.setdefault(sight.n, set()).add(sight.sample)
        numbers = values.double().cpu().numpy()
        known = ~np.isnan(numbers)
        sums = cell.setdefault(name, np.zeros((2, len(numbers))))
        sums += np.stack([np.where(known, numbers, 0), known])

    def _sums(self, name: str, **where: int) -> Iterator[np.ndarray]:
        for cell, names in self.cells.items():
            if name in names and all(getattr(cell, key) == value for key, value in where.items()):
                yield names[name]

    def mean(self, name: str, **where: int) -> float | None:
        """Over all observations, or those `where` n, site or step has a value; None if there is none."""
        return _ratio(sum((sums.sum(1) for sums in self._sums(name, **where)), np.zeros(2)))

    def count(self, name: str, **where: int) -> int:
        return int(sum(sums[1].sum() for sums in self._sums(name, **where)))

    def by_head(self, name: str, **where: int) -> list[float | None]:
        """A layer with fewer heads than another counts for those it has."""
        found = list(self._sums(name, **where))
        heads = max((sums.shape[1] for sums in found), default=0)
        return [_ratio(sum(sums[:, h] for sums in found if h < sums.shape[1])) for h in range(heads)]

    def values(self, key: str) -> list[int]:
        return sorted({getattr(cell, key) for cell in self.cells})

    def by_cell(self, names: Iterable[str], sites: Sequence[Site]) -> list[dict[str, Any]]:
        """A flat row per number of styles, layer and step: means over samples, heads and queries."""
        names = list(names)
        return [
            {
                "n": cell.n,
                "layer": sites[cell.site].attention,
                "step": cell.step,
                "t": cell.t,
                **{name: self.mean(name, **cell._asdict()) for name in names},
            }
            for cell in sorted(self.cells)
        ]


def _ratio(sums: Any) -> float | None:
    total, count = sums
    return float(total / count) if count else None


def nan_mean(values: Tensor) -> Tensor:
    """The mean over the last dimension; NaN when it is empty."""
    if values.shape[-1]:
        return values.double().mean(-1)
    return torch.full(values.shape[:-1], math.nan, dtype=torch.float64, device=values.device)
