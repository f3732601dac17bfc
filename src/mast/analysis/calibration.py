"""The map from sharpness gap to tau, fitted to a model (App. A.4): the paper's own procedure, for any
backbone.

While MAST runs, every controlled head, layer and timestep gives one observation: its gap Delta, and the
factor among 120 in [0.8, 5] that brings its joint attention closest to the content's sharpness. A
quadratic is fitted to all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..core import sts
from ..core.attention import row_statistics
from ..files import atomic
from ..job import InputError, Job, OnStep, Settings
from ..methods import Mast
from ..tables import number
from .observe import Sight, observe
from .report import TextRow
from .rows import sharpness

GRID = np.linspace(0.8, 5.0, 120)
DEGREES = (1, 2, 3, 4)
PAPER_R2 = {1: 0.927, 2: 0.932, 3: 0.934, 4: 0.935}
HEADER = ("degree", "R2", "R2 (paper, SD 1.4)", "coefficients, highest power first")


class Gaps:
    """The onlooker: notes (sample, step, site, head, Delta, tau*) of every head it meets."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int, int, float, float]] = []

    def __call__(self, sight: Sight) -> None:
        own = sight.content_statistics
        if own is None:
            own = row_statistics(sight.partitions[-1].query, sight.partitions[-1].key)
        joint = sharpness(sight.partitions, sight.targets, own)
        target = own.log_peak.mean(-1)
        gaps = (target - joint(sight.one)).tolist()
        for head, (gap, tau) in enumerate(zip(gaps, matching_factors(joint, target).tolist(), strict=True)):
            self.seen.append((sight.sample, sight.step, sight.site.index, head, gap, tau))

    @property
    def pairs(self) -> np.ndarray:
        """(n, 2) of (Delta, tau*)."""
        return np.array([row[4:] for row in self.seen]).reshape(-1, 2)

    def save(self, path: Path) -> None:
        with atomic(path) as part:
            lines = ["sample,step,layer,head,gap,tau"]
            lines += [",".join(f"{value:.6g}" for value in row) for row in self.seen]
            part.write_text("\n".join(lines) + "\n")


def matching_factors(sharpness_at: Callable[[Tensor], Tensor], target: Tensor) -> Tensor:
    """tau* of Eq. 35 on the grid, for all heads at once: the factor whose mean log peak comes closest to
    the target.

    sharpness_at: tau (h,) -> mean log peak (h,), which never falls with tau (Eq. 34), so the crossing is
    found by halving instead of trying all 120. target: (h,) -> (h,).
    """
    grid = torch.tensor(GRID, dtype=torch.float32, device=target.device)

    def residual(index: Tensor) -> Tensor:
        return target - sharpness_at(grid[index])

    low = torch.zeros(len(target), dtype=torch.long, device=target.device)
    high = torch.full_like(low, len(GRID) - 1)
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        sharper = residual(middle) > 0
        low, high = torch.where(sharper, middle, low), torch.where(sharper, high, middle)
    return grid[torch.where(residual(low).abs() <= residual(high).abs(), low, high)].double()


@dataclass(frozen=True)
class Calibration:
    """coefficients: (a, b, c) of Eq. 36; r2 and polynomials by degree 1 to 4, highest power first."""

    coefficients: tuple[float, float, float]
    r2: dict[int, float]
    observations: int
    pairs: np.ndarray
    polynomials: dict[int, list[float]] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """What `--tau` takes."""
        return "/".join(f"{value:.5f}" for value in self.coefficients)

    def table(self) -> list[TextRow]:
        return [
            (
                str(degree),
                number(self.r2[degree]),
                number(PAPER_R2[degree]),
                ", ".join(f"{value:.5f}" for value in self.polynomials[degree]),
            )
            for degree in DEGREES
        ]

    def data(self) -> dict[str, Any]:
        gap, tau = self.pairs.T
        return {
            "tau": [round(value, 5) for value in self.coefficients],
            "mast": {"tau": [round(value, 5) for value in self.coefficients]},
            "r2": {str(degree): value for degree, value in self.r2.items()},
            "polynomials": {str(degree): values for degree, values in self.polynomials.items()},
            "observations": self.observations,
            "gap_range": [float(gap.min()), float(gap.max())],
            "at_the_ends_of_the_grid": int(((tau <= GRID[0] + 1e-4) | (tau >= GRID[-1] - 1e-4)).sum()),
            "paper_sd14": {
                "tau": list(sts.SD_COEFFICIENTS),
                "r2": {str(degree): value for degree, value in PAPER_R2.items()},
            },
        }


def calibrate(
    jobs: Sequence[Job], backbone: Backbone, settings: Settings, on_step: OnStep | None = None
) -> Calibration:
    """Runs MAST, with the paper's coefficients, on every job, and fits tau to what was seen."""
    gaps = Gaps()
    for _ in observe(jobs, backbone, settings, starting_method(backbone), gaps, on_step):
        pass
    return fit(gaps.pairs)


def starting_method(backbone: Backbone, **options: Any) -> Mast:
    """The method that is watched: the model's defaults but for tau, which is what is looked for."""
    own = {k: v for k, v in backbone.defaults.get("mast", {}).items() if k != "tau"}
    return Mast(**{**own, **{k: v for k, v in options.items() if v is not None}})


def fit(pairs: np.ndarray) -> Calibration:
    """Least squares over pairs (n, 2) of (Delta, tau*)."""
    if len(pairs) < len(DEGREES) + 2:
        raise InputError(f"{len(pairs)} observations are too few to fit tau; take more pictures or steps")
    gap, tau = pairs.T
    r2, polynomials = {}, {}
    for degree in DEGREES:
        polynomials[degree] = [float(value) for value in np.polyfit(gap, tau, degree)]
        predicted = np.polyval(polynomials[degree], gap)
        r2[degree] = float(1 - ((tau - predicted) ** 2).sum() / max(((tau - tau.mean()) ** 2).sum(), 1e-12))
    a, b, c = polynomials[2]
    return Calibration((a, b, c), r2, len(pairs), pairs, polynomials)


def check_model_folder(model: str) -> Path:
    """The defaults.json of a model that is a folder; anything else has none to write to."""
    folder = Path(model)
    if not (folder / "unet" / "config.json").is_file():
        raise InputError(
            f"--write-defaults: {model} is no model folder, so it has no defaults.json; use the --tau "
            "line instead"
        )
    return folder / "defaults.json"


def write_defaults(path: Path, found: Calibration) -> None:
    """Puts the coefficients into a model's defaults.json and leaves the rest of it as it is."""
    before = json.loads(path.read_text()) if path.exists() else {}
    before["mast"] = {**before.get("mast", {}), "tau": [round(value, 5) for value in found.coefficients]}
    with atomic(path) as part:
        part.write_text(json.dumps(before) + "\n")
