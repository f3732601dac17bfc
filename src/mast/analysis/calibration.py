"""The map from sharpness gap to tau, fitted to a model (App. A.4): the paper's own procedure, for any
backbone.

While MAST runs, every controlled head, layer and timestep gives one observation: its gap Delta, and the
factor among 120 in [0.8, 5] that brings its joint attention closest to the content's sharpness. A
quadratic is fitted to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.sites import Site
from ..core import sts
from ..core.attention import Joint, dense_attention, dense_logits, logits
from ..job import Job, OnStep, Settings
from ..methods import Mast, Scene
from ..pipeline import stylize

GRID = np.linspace(0.8, 5.0, 120)


@dataclass(frozen=True)
class Observer(Mast):
    """MAST by the dense reference that also notes (Delta, tau*) of every head it meets."""

    seen: list[tuple[float, float]] = field(default_factory=list, compare=False, repr=False)

    def options(self) -> dict[str, Any]:
        return {name: value for name, value in super().options().items() if name != "seen"}

    def joint(self, scene: Scene, site: Site, query: Tensor) -> Joint:
        styles, own = self.partitions(scene, site, query, scene.content_at(site))
        masses = self.masses(scene, site)
        target = sts.log_peak(logits(own)).mean(-1)
        joint = dense_logits(styles, own, masses)
        gaps = target - sts.log_peak(joint).mean(-1)
        for head in range(joint.shape[0]):
            self.seen.append((float(gaps[head]), matching_factor(joint[head], float(target[head]))))
        return dense_attention(styles, own, masses, self.tau_rule)


def matching_factor(joint: Tensor, target: float) -> float:
    """tau* of Eq. 35 on the grid: joint (q, k) scaled by it comes closest to the target mean log peak.

    Sharpness never falls with tau (Eq. 34), so the crossing is found by halving instead of trying all 120.
    """

    def residual(index: int) -> float:
        return target - float(sts.log_peak(joint * float(GRID[index])).mean())

    low, high = 0, len(GRID) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if residual(middle) > 0 else (low, middle)
    return float(GRID[min((low, high), key=lambda index: abs(residual(index)))])


@dataclass(frozen=True)
class Calibration:
    """coefficients: (a, b, c) of Eq. 36; r2: by polynomial degree 1 to 4."""

    coefficients: tuple[float, float, float]
    r2: dict[int, float]
    observations: int
    pairs: np.ndarray


@torch.inference_mode()
def calibrate(
    jobs: Sequence[Job], backbone: Backbone, settings: Settings, on_step: OnStep | None = None
) -> Calibration:
    """Runs MAST on every job, at a size where the dense map fits, and fits tau to what was seen."""
    observer = Observer(**{k: v for k, v in backbone.defaults.get("mast", {}).items() if k != "tau"})
    for job in jobs:
        stylize(job, backbone, observer, settings, on_step)
    pairs = np.array(observer.seen)
    return fit(pairs)


def fit(pairs: np.ndarray) -> Calibration:
    """Least squares over pairs (n, 2) of (Delta, tau*)."""
    gap, tau = pairs.T
    r2 = {}
    for degree in (1, 2, 3, 4):
        predicted = np.polyval(np.polyfit(gap, tau, degree), gap)
        r2[degree] = float(1 - ((tau - predicted) ** 2).sum() / ((tau - tau.mean()) ** 2).sum())
    a, b, c = (float(value) for value in np.polyfit(gap, tau, 2))
    return Calibration((a, b, c), r2, len(pairs), pairs)
