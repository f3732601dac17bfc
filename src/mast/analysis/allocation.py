"""Where attention mass goes before and after LAMA (Sec. 4.3 "LAMA analysis", App. A.2, Eq. 27-31).

Before and after are read off the same logits of one run: the paper compares "the partition masses realized
by the shared Softmax before and after LAMA", and its raw masses (Eq. 14) are those of the very queries that
LAMA then corrects. `stages` also takes a run of shared attention by itself, whose trajectory is its own.

The targets are measured over the same interiors: an interior cell may hold up to 0.01 of another mask, so
its target is not quite 0.9, 0.1 and 0, and neither are the masses that meet it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..backbone.sites import Site
from ..tables import number
from .observe import Sight, Tally, nan_mean
from .report import TextRow
from .rows import joint_masses

INSIDE, OUTSIDE = 0.99, 0.01  # a query is interior where its mask is at least, all others at most this
NAMES = ("style", "content", "leakage", "tv", "jsd")
PAPER = {
    "shared": (0.242, 0.582, 0.175, 0.656, 0.276),
    "lama": (0.900, 0.100, 1.0e-6, 9.1e-8, 1.6e-8),
    "target": (0.900, 0.100, 0.0, 0.0, 0.0),
}
LABELS = {
    "shared": "Shared Attn.",
    "lama": "+ LAMA",
    "target": "Target",
    "shared-run": "Shared Attn., own run",
}
HEADER = ("stage", "model", "N", "n", "style", "content", "leakage", "TV", "JSD")


def interior(masks: Tensor) -> Tensor:
    """(N, q) bool: the queries that are unambiguously style i's. M_i >= 0.99, sum of the others <= 0.01."""
    others = masks.sum(0, keepdim=True) - masks
    return (masks >= INSIDE) & (others <= OUTSIDE)


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Eq. 29 over the first dimension: half the absolute difference; in [0, 1]."""
    return 0.5 * (p.double() - q.double()).abs().sum(0)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Eq. 30-31 over the first dimension, in nats: symmetric, finite, at most log 2."""
    p, q = p.double(), q.double()
    mixture = 0.5 * (p + q)
    log = lambda x: x.clamp_min(torch.finfo(torch.float64).tiny).log()
    divergence = lambda x: (x * (log(x) - log(mixture))).sum(0)
    return (0.5 * (divergence(p) + divergence(q))).clamp_min(0)


def decompose(masses: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eq. 28: mean mass on the intended style, on the content, and on other styles, over interior queries.

    masses: (N + 1, h, q); inside: (N, q) -> three of (h,), NaN when there is no interior.
    """
    rows = inside.any(0)
    owner = inside[:, rows].unsqueeze(1)  # (N, 1, rows)
    styles, content = masses[:-1][..., rows], masses[-1][..., rows]
    own = (styles * owner).sum(0)
    return nan_mean(own), nan_mean(content), nan_mean((styles * ~owner).sum(0))


class Allocation:
    """The onlooker: five numbers per stage, layer, step and head.

    furthest: by number of styles, the largest difference of any mass under LAMA from its target.
    """

    def __init__(self, stages: Sequence[str] = ("shared", "lama", "target")) -> None:
        self.stages, self.tally = tuple(stages), Tally()
        self.furthest: dict[int, float] = {}

    def __call__(self, sight: Sight) -> None:
        for stage in self.stages:
            if stage == "target":
                heads = len(sight.tau)
                self.note(sight, stage, sight.targets.unsqueeze(1).expand(-1, heads, -1))
                continue
            masses = joint_masses(sight.plain, sight.shift if stage == "lama" else 0.0, sight.one)
            self.note(sight, stage, masses)
            if stage == "lama":
                worst = float((masses - sight.targets.unsqueeze(1)).abs().max())
                self.furthest[sight.n] = max(worst, self.furthest.get(sight.n, 0.0))

    def note(self, sight: Sight, stage: str, masses: Tensor) -> None:
        """masses: (N + 1, h, q)."""
        target = sight.targets.unsqueeze(1)
        for name, values in zip(NAMES, decompose(masses, interior(sight.masks)), strict=False):
            self.tally.add(sight, f"{stage}.{name}", values)
        self.tally.add(sight, f"{stage}.tv", total_variation(masses, target).mean(-1))
        self.tally.add(sight, f"{stage}.jsd", jensen_shannon(masses, target).mean(-1))


def table(watchers: Sequence[Allocation], model: str) -> list[TextRow]:
    """Table 4's rows, by number of styles, the paper's beside ours."""
    rows: list[TextRow] = []
    counts = sorted({n for watcher in watchers for n in watcher.tally.values("n")})
    for stage in [stage for watcher in watchers for stage in watcher.stages]:
        if stage in PAPER:
            rows.append((LABELS[stage], "paper, SD 1.4", "2", "200", *map(number, PAPER[stage])))
        for n in counts:
            tally = next(w.tally for w in watchers if stage in w.stages)
            means = [tally.mean(f"{stage}.{name}", n=n) for name in NAMES]
            pictures = len(tally.samples[n])
            rows.append((LABELS[stage], model, str(n), str(pictures), *map(number, means)))
    return rows


def data(watchers: Sequence[Allocation], sites: Sequence[Site]) -> dict[str, Any]:
    """All of it for JSON: by number of styles, and by layer and step."""
    stages: dict[str, Any] = {}
    for watcher in watchers:
        for stage in watcher.stages:
            tally, names = watcher.tally, [f"{stage}.{name}" for name in NAMES]
            by_n = {
                str(n): {
                    **{name: tally.mean(f"{stage}.{name}", n=n) for name in NAMES},
                    "pictures": len(tally.samples[n]),
                    **({"furthest_from_target": watcher.furthest[n]} if stage == "lama" else {}),
                    "observations": tally.count(f"{stage}.tv", n=n),
                    "observations_with_interior": tally.count(f"{stage}.style", n=n),
                }
                for n in tally.values("n")
            }
            cells = [
                {key.removeprefix(f"{stage}."): value for key, value in row.items()}
                for row in tally.by_cell(names, sites)
            ]
            stages[stage] = {"by_n": by_n, "by_layer_and_step": cells}
    paper = {stage: dict(zip(NAMES, values, strict=True)) for stage, values in PAPER.items()}
    return {"stages": stages, "paper_sd14_n2_200_pictures": paper}
