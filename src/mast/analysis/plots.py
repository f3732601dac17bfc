"""The figures of the analyses that are charts; matplotlib draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import sts
from ..core.ddi import transmission
from . import allocation as allocating
from .calibration import DEGREES, GRID, Calibration
from .observe import Tally
from .report import figures
from .sharpness import PAPER_DRIFT, STAGES, Drift, Entropy

PALETTE = ("#4363d8", "#9a9a9a", "#e6194b", "#3cb44b", "#f58231", "#911eb4")


def allocation(watchers: Sequence[allocating.Allocation], model: str, pi: float) -> Any:
    """Where the mass goes, stage by stage; and shared attention's style mass, layer by layer, over the
    run.
    """
    figure = figures()(figsize=(11, 4))
    bars, lines = figure.subplots(1, 2, width_ratios=(3, 2))
    labels: list[str] = []
    parts: list[tuple[float, ...]] = []
    for watcher in watchers:
        for stage in watcher.stages:
            if stage in allocating.PAPER:
                labels.append(f"{allocating.LABELS[stage]} (paper, SD 1.4)")
                parts.append(allocating.PAPER[stage][:3])
            labels.append(f"{allocating.LABELS[stage]} ({model})")
            means = [watcher.tally.mean(f"{stage}.{name}") for name in allocating.NAMES[:3]]
            parts.append(tuple(np.nan if value is None else value for value in means))
    left = np.zeros(len(parts))
    for name, colour, widths in zip(allocating.NAMES, PALETTE, np.array(parts).T, strict=False):
        bars.barh(labels, widths, left=left, color=colour, label=name)
        left = left + np.nan_to_num(widths)
    bars.invert_yaxis()
    bars.set_xlabel("attention mass of interior queries")
    bars.set_xlim(0, 1)
    bars.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncol=3, frameon=False)
    _by_layer(lines, watchers[0].tally, "shared.style")
    lines.axhline(pi, color="#2a2a2a", linestyle="--", linewidth=1)
    lines.text(0, pi, " target", va="bottom")
    lines.set_ylim(0, 1)
    lines.set_title("shared attention: mass on the intended style", fontsize=10)
    figure.tight_layout()
    return figure


def _by_layer(axes: Any, tally: Tally, name: str) -> None:
    steps = tally.values("step")
    for i, site in enumerate(tally.values("site")):
        values = [tally.mean(name, site=site, step=step) for step in steps]
        axes.plot(
            steps,
            [np.nan if value is None else value for value in values],
            color=PALETTE[i % 6],
            label=f"layer {site + 1}",
        )
    axes.set_xlabel("denoising step")
    axes.legend(frameon=False, fontsize=8, ncol=2, loc="center right", bbox_to_anchor=(1, 0.72))


def entropy(found: Entropy, title: str) -> Any:
    """Bars per head: content self-attention, joint attention before and after STS."""
    figure = figures()(figsize=(9, 3.6))
    axes = figure.subplots()
    heads = found.tally.by_head("content")
    place = np.arange(len(heads))
    for i, (name, label) in enumerate(STAGES.items()):
        values = [np.nan if value is None else value for value in found.tally.by_head(name)]
        axes.bar(
            place + 0.27 * (i - 1), values, 0.25, label=label, color=("#9a9a9a", "#f58231", "#4363d8")[i]
        )
    axes.set_xticks(place, [str(head + 1) for head in place])
    axes.set_xlabel("head")
    axes.set_ylabel("mean entropy, nats")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=3, frameon=False)
    return figure


def drift(found: Drift, model: str) -> Any:
    """D_mass and rho_min by N, the paper's and ours."""
    figure = figures()(figsize=(9, 3.4))
    ours = found.tally.values("n")
    series = {
        "D_mass": (
            [values[1] for values in PAPER_DRIFT.values()],
            [found.tally.mean("d_mass", n=n) for n in ours],
        ),
        "rho_min": ([values[2] for values in PAPER_DRIFT.values()], [found.rho_min(n) for n in ours]),
    }
    for axes, (name, (paper, own)) in zip(figure.subplots(1, 2), series.items(), strict=True):
        axes.plot(list(PAPER_DRIFT), paper, "o--", color="#9a9a9a", label="paper, SD 1.4")
        axes.plot(
            ours, [np.nan if value is None else value for value in own], "s-", color="#4363d8", label=model
        )
        axes.set_xticks(sorted({*PAPER_DRIFT, *ours}))
        axes.set_xlabel("number of styles N")
        axes.set_title(name)
        if name == "D_mass":
            axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    figure.tight_layout()
    return figure


def calibration(found: Calibration, model: str) -> Any:
    """The scatter of (Delta, tau*) with polynomials of degree 1 to 4 and the paper's curve."""
    figure = figures()(figsize=(7, 4.6))
    axes = figure.subplots()
    gap, tau = found.pairs.T
    axes.scatter(gap, tau, s=6, alpha=min(1.0, 400 / len(gap) ** 0.9), color="#4363d8", edgecolors="none")
    line = np.linspace(gap.min(), gap.max(), 200)
    for degree in DEGREES:
        style = {"color": "#e6194b", "linewidth": 2} if degree == 2 else {"linewidth": 1, "linestyle": ":"}
        label = f"degree {degree}, R2 {found.r2[degree]:.3f}"
        axes.plot(line, np.polyval(found.polynomials[degree], line), label=label, **style)
    axes.plot(line, np.polyval(sts.SD_COEFFICIENTS, line), "--", color="#9a9a9a", label="paper, SD 1.4")
    axes.axhline(GRID[0], color="#2a2a2a", linewidth=0.8, linestyle="--")
    axes.set_ylim(GRID[0] - 0.2, min(GRID[-1] + 0.2, tau.max() + 0.5))
    axes.set_xlabel("sharpness gap Delta")
    axes.set_ylabel("matching factor tau*")
    axes.set_title(f"{model}, {found.observations} heads", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure


def filter_transmission(scales: Sequence[float], grids: Sequence[int]) -> Any:
    """T(r) over r, with the values asked for marked."""
    figure = figures()(figsize=(6, 3.8))
    axes = figure.subplots()
    line = np.linspace(min(0.05, *scales), max(1.0, *scales), 120)
    for size, style in zip(grids, ("-", "--"), strict=False):
        values = [100 * transmission(float(r), size) for r in line]
        axes.plot(line, values, style, label=f"{size}x{size}", color="#4363d8" if style == "-" else "#f58231")
    for r in scales:
        value = 100 * transmission(r, grids[-1])
        axes.plot([r], [value], "o", color="#2a2a2a", markersize=4)
        axes.annotate(f"{value:.3g} %", (r, value), textcoords="offset points", xytext=(6, 4), fontsize=8)
    axes.set_yscale("log")
    axes.set_xlabel("frequency scale r")
    axes.set_ylabel("T(r), % of r = 0.1")
    axes.legend(frameon=False)
    return figure
