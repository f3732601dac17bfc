"""What STS does to attention: entropy per head (App. A.5, Eq. 38), and how far partition masses move away
from LAMA's targets (App. A.5, Eq. 39-41, Table 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..backbone.sites import Site
from ..tables import number
from .allocation import total_variation
from .observe import Sight, Tally
from .report import TextRow
from .rows import Moments, correlation, joint_entropy, joint_masses

STAGES = {
    "content": "content self-attention",
    "lama": "joint, LAMA, before STS",
    "sts": "joint, LAMA, after STS",
}
ENTROPY_HEADER = ("head", *STAGES.values(), "tau", "recovered")
DRIFT_HEADER = ("N", "model", "n", "content target", "content after STS", "D_mass", "rho_min", "mean tau")
PAPER_DRIFT = {
    2: (0.080, 0.038, 0.995),
    3: (0.078, 0.035, 0.998),
    4: (0.078, 0.035, 0.995),
    5: (0.078, 0.036, 0.993),
}


class Entropy:
    """The onlooker: mean entropy over all queries (Eq. 38), by layer, step and head."""

    def __init__(self) -> None:
        self.tally = Tally()

    def __call__(self, sight: Sight) -> None:
        own = Moments(sight.plain.log_z[-1:], sight.plain.energy[-1:])
        found = {
            "content": joint_entropy(own, 0.0, sight.one),
            "lama": joint_entropy(sight.plain, sight.shift, sight.one),
            "sts": joint_entropy(sight.sharpened, sight.shift, sight.tau),
        }
        for name, entropy in found.items():
            self.tally.add(sight, name, entropy.double().mean(-1))
        self.tally.add(sight, "tau", sight.tau)

    def table(self) -> list[TextRow]:
        """A row per head and one for all: nats, and which part of the gap to the content STS closes."""
        heads = [self.tally.by_head(name) for name in (*STAGES, "tau")]
        lines: list[Any] = [(str(h + 1), *values) for h, values in enumerate(zip(*heads, strict=True))]
        lines.append(("all", *[self.tally.mean(name) for name in (*STAGES, "tau")]))
        return [(name, *map(number, values), recovered(*values[:3])) for name, *values in lines]

    def data(self, sites: Sequence[Site]) -> dict[str, Any]:
        tally = self.tally
        return {
            "mean": {name: tally.mean(name) for name in (*STAGES, "tau")},
            "by_head": {name: tally.by_head(name) for name in (*STAGES, "tau")},
            "by_n": {
                str(n): {name: tally.mean(name, n=n) for name in (*STAGES, "tau")} for n in tally.values("n")
            },
            "pictures": {str(n): len(seen) for n, seen in sorted(tally.samples.items())},
            "observations": tally.count("sts"),
            "by_layer_and_step": tally.by_cell((*STAGES, "tau"), sites),
        }


def recovered(content: float | None, before: float | None, after: float | None) -> str:
    """The share of the entropy gap that is closed; a dash where attention was no flatter than the
    content's.
    """
    if content is None or before is None or after is None or before - content <= 0:
        return "-"
    return f"{(before - after) / (before - content):.0%}"


class Drift:
    """The onlooker: content mass, D_mass (Eq. 40) and the correlation of each style's masses with its
    targets (Eq. 41).
    """

    def __init__(self) -> None:
        self.tally = Tally()

    def __call__(self, sight: Sight) -> None:
        masses = joint_masses(sight.sharpened, sight.shift, sight.tau)
        targets = sight.targets.unsqueeze(1).expand_as(masses)
        self.tally.add(sight, "target", targets[-1].double().mean(-1))
        self.tally.add(sight, "content", masses[-1].double().mean(-1))
        self.tally.add(sight, "d_mass", total_variation(masses, targets).mean(-1))
        self.tally.add(sight, "tau", sight.tau)
        if sight.gap is not None:
            self.tally.add(sight, "gap", sight.gap)
        for i, rho in enumerate(torch.unbind(correlation(targets[:-1], masses[:-1]))):
            self.tally.add(sight, f"rho{i + 1}", rho)

    def rho_min(self, n: int) -> float | None:
        """Eq. 41: the lowest of the styles' mean correlations."""
        found = [self.tally.mean(f"rho{i + 1}", n=n) for i in range(n)]
        return min((rho for rho in found if rho is not None), default=None)

    def table(self, model: str) -> list[TextRow]:
        """Table 8's rows, the paper's beside ours. Its N = 4 has no bundled example."""
        rows: list[TextRow] = []
        for n in sorted({*PAPER_DRIFT, *self.tally.values("n")}):
            if n in PAPER_DRIFT:
                content, d_mass, rho = map(number, PAPER_DRIFT[n])
                rows.append((str(n), "paper, SD 1.4", "-", "0.100", content, d_mass, rho, "-"))
            if n in self.tally.samples:
                means = [self.tally.mean(name, n=n) for name in ("target", "content", "d_mass")]
                values = [*means, self.rho_min(n), self.tally.mean("tau", n=n)]
                rows.append((str(n), model, str(len(self.tally.samples[n])), *map(number, values)))
        return rows

    def data(self, sites: Sequence[Site]) -> dict[str, Any]:
        tally, names = self.tally, ("target", "content", "d_mass", "tau", "gap")
        return {
            "by_n": {
                str(n): {
                    **{name: tally.mean(name, n=n) for name in names},
                    "rho": [tally.mean(f"rho{i + 1}", n=n) for i in range(n)],
                    "rho_min": self.rho_min(n),
                    "pictures": len(tally.samples[n]),
                    "observations": tally.count("d_mass", n=n),
                }
                for n in tally.values("n")
            },
            "by_layer_and_step": tally.by_cell(names, sites),
            "paper_sd14": {
                str(n): dict(zip(("content", "d_mass", "rho_min"), values, strict=True))
                for n, values in PAPER_DRIFT.items()
            },
        }
