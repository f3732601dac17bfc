"""The plots of the sweeps, as the paper has them; matplotlib draws them (extra `bench`).

Every sweep has its trade-off curve, FID against LPIPS. Beside it, tau has ArtFID against the fixed factor
with STS as a dashed line (Fig. sts_analysis), and r its metrics against the filter's transmission T(r)
(Fig. ratio_sweep).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ddi import transmission

if TYPE_CHECKING:
    from .scores import Score
    from .sweep import Point, Sweep

DEFAULT_R = 0.3  # the paper's
NAMES = {"lam": "λ", "pi": "π*", "tau": "τ"}
Measured = Sequence["tuple[Point, Score]"]


def figure(sweep: Sweep, measured: Measured, n: int) -> Any | None:
    """The sweep's plot for one N, a matplotlib figure; None without matplotlib, or with nothing to draw."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    beside = {"tau": artfid_of_tau, "r": metrics_of_transmission}.get(sweep.option)
    measured = [
        (point, score) for point, score in measured if score.fid is not None and score.lpips is not None
    ]
    if not measured:
        return None
    drawn = Figure(figsize=(10, 4) if beside else (5.5, 4))
    axes = drawn.subplots(1, 2 if beside else 1, squeeze=False)[0]
    if beside is not None:
        beside(axes[0], measured)
    trade_off(axes[-1], sweep.option, measured)
    samples = min(score.samples for _, score in measured)
    drawn.suptitle(f"N = {n}, {samples} pictures a point", fontsize=10)
    drawn.tight_layout()
    return drawn


def trade_off(axes: Any, option: str, measured: Measured) -> None:
    """FID against LPIPS, every point labelled; numbers are joined by a line, other points stand alone."""
    line = sorted(((p, s) for p, s in measured if p.value is not None), key=lambda pair: pair[0].value or 0)
    alone = [(p, s) for p, s in measured if p.value is None]
    axes.plot([s.lpips for _, s in line], [s.fid for _, s in line], "o-", color="#4363d8")
    axes.plot([s.lpips for _, s in alone], [s.fid for _, s in alone], "*", color="#e6194b", markersize=11)
    for point, score in measured:
        name = point.label if point.value is None else f"{NAMES.get(option, option)} = {point.label}"
        axes.annotate(name, (score.lpips, score.fid), (5, 4), textcoords="offset points", fontsize=8)
    axes.margins(0.15)
    axes.set_xlabel("LPIPS ↓")
    axes.set_ylabel("FID ↓")


def artfid_of_tau(axes: Any, measured: Measured) -> None:
    """ArtFID against the fixed factor; the dashed line is adaptive STS."""
    fixed = sorted((point.value, score.artfid) for point, score in measured if point.value is not None)
    axes.plot(
        [tau for tau, _ in fixed], [value for _, value in fixed], "o-", color="#4363d8", label="fixed τ"
    )
    for point, score in measured:
        if point.value is None:
            axes.axhline(score.artfid, linestyle="--", color="#e6194b", label="STS (adaptive)")
    axes.set_xlabel("τ")
    axes.set_ylabel("ArtFID ↓")
    axes.legend(frameon=False, fontsize=8)


def metrics_of_transmission(axes: Any, measured: Measured) -> None:
    """FID, R-FID and LPIPS, each scaled to 0 (its best) .. 1, against T(r); r on the upper axis."""
    points = sorted(((p.value, s) for p, s in measured if p.value is not None), key=lambda pair: pair[0])
    passed = [100 * transmission(r) for r, _ in points]
    for name, mark, title in (("fid", "o-", "FID"), ("rfid", "s-", "R-FID"), ("lpips", "^-", "LPIPS")):
        values = [getattr(score, name) for _, score in points]
        if None not in values:
            axes.plot(passed, normalised(values), mark, label=title)
    axes.axvline(100 * transmission(DEFAULT_R), linestyle="--", color="#2a2a2a", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("transmission T(r), %")
    axes.set_ylabel("min-max normalised (0 is best)")
    axes.legend(frameon=False, fontsize=8)
    upper = axes.secondary_xaxis("top")
    upper.set_xticks(passed, [f"{r:g}" for r, _ in points])
    upper.minorticks_off()
    upper.set_xlabel("r")


def normalised(values: Sequence[float]) -> list[float]:
    """0 for the smallest, 1 for the largest; all 0 when they are equal."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]
