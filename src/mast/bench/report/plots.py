"""The plots of the comparison and of sweeps, as the paper has them; matplotlib draws them (extra `bench`).

The comparison and every sweep have a trade-off curve, FID against LPIPS. Beside a sweep's, tau has ArtFID
against the fixed factor with STS as a dashed line (Fig. sts_analysis), and r its metrics against the filter's
transmission T(r) (Fig. ratio_sweep).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ddi import transmission

if TYPE_CHECKING:
    from .scores import MethodRow, VariantScore
    from .sweep import Point, Sweep

DEFAULT_R = 0.3  # the paper's
NAMES = {"lam": "λ", "pi": "π*", "tau": "τ"}
SHAPES = {"G-S": "o", "R-S": "s", "R-M": "^"}  # by family
Measured = Sequence["tuple[Point, VariantScore]"]


def _blank(width: float, height: float) -> Any | None:
    """An empty figure that needs no display; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    return Figure(figsize=(width, height))


def comparison_figure(rows: Sequence[MethodRow]) -> Any | None:
    """FID against LPIPS, a line for each method through its N; None without matplotlib."""
    figure = _blank(7, 5)
    if figure is None:
        return None
    axes = figure.subplots()
    for i, entry in enumerate(rows):
        points = [(n, score.evaluation.fid, score.evaluation.lpips) for n, score in entry.scores.items()]
        known = [(n, fid, lpips) for n, fid, lpips in points if fid is not None and lpips is not None]
        if not known:
            continue
        kind = entry.run.family
        axes.plot(
            [lpips for _, _, lpips in known],
            [fid for _, fid, _ in known],
            marker=SHAPES.get(kind, "x"),
            color=f"C{i % 10}",
            label=f"{entry.label} ({kind})",
            alpha=0.85,
        )
        for n, fid, lpips in known:
            axes.annotate(f"{n}", (lpips, fid), textcoords="offset points", xytext=(5, 4), fontsize=8)
    axes.set_xlabel("LPIPS to the photo (lower keeps more content)")
    axes.set_ylabel("FID to the styles (lower is more faithful)")
    axes.set_title("Numbers at the points: N")
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def sweep_figure(sweep: Sweep, measured: Measured, n: int) -> Any | None:
    """The sweep's plot for one N, a matplotlib figure; None without matplotlib, or with nothing to draw."""
    beside = {"tau": artfid_of_tau, "r": metrics_of_transmission}.get(sweep.option)
    known = [
        (point, score)
        for point, score in measured
        if score.evaluation.fid is not None and score.evaluation.lpips is not None
    ]
    figure = _blank(10 if beside else 5.5, 4)
    if figure is None or not known:
        return None
    axes = figure.subplots(1, 2 if beside else 1, squeeze=False)[0]
    if beside is not None:
        beside(axes[0], known)
    trade_off(axes[-1], sweep.option, known)
    samples = min(score.samples for _, score in known)
    figure.suptitle(f"N = {n}, {samples} pictures a point", fontsize=10)
    figure.tight_layout()
    return figure


def trade_off(axes: Any, option: str, measured: Measured) -> None:
    """FID against LPIPS, every point labelled; numbers are joined by a line, other points stand alone."""
    line = sorted(((p, s) for p, s in measured if p.value is not None), key=lambda pair: pair[0].value or 0)
    alone = [(p, s) for p, s in measured if p.value is None]
    for points, form in (
        (line, {"marker": "o", "linestyle": "-", "color": "#4363d8"}),
        (alone, {"marker": "*", "linestyle": "", "color": "#e6194b", "markersize": 11}),
    ):
        axes.plot([s.evaluation.lpips for _, s in points], [s.evaluation.fid for _, s in points], **form)
    across = [score.evaluation.lpips or 0 for _, score in measured]
    middle = (min(across) + max(across)) / 2
    for point, score in measured:
        name = point.label if point.value is None else f"{NAMES.get(option, option)} = {point.label}"
        place = (score.evaluation.lpips or 0, score.evaluation.fid)
        side, at = ("right", (-6, 4)) if place[0] > middle else ("left", (6, 4))  # labels stay inside
        axes.annotate(name, place, at, textcoords="offset points", fontsize=8, ha=side)
    axes.margins(0.15)
    axes.set_xlabel("LPIPS ↓")
    axes.set_ylabel("FID ↓")


def artfid_of_tau(axes: Any, measured: Measured) -> None:
    """ArtFID against the fixed factor; the dashed line is adaptive STS."""
    fixed = sorted((p.value, s.evaluation.artfid) for p, s in measured if p.value is not None)
    axes.plot(
        [tau for tau, _ in fixed], [value for _, value in fixed], "o-", color="#4363d8", label="fixed τ"
    )
    for point, score in measured:
        if point.value is None:
            axes.axhline(score.evaluation.artfid, linestyle="--", color="#e6194b", label="STS (adaptive)")
    axes.set_xlabel("τ")
    axes.set_ylabel("ArtFID ↓")
    axes.legend(frameon=False, fontsize=8)


def metrics_of_transmission(axes: Any, measured: Measured) -> None:
    """FID, R-FID and LPIPS, each scaled to 0 (its best) .. 1, against T(r); r on the upper axis."""
    points = sorted(((p.value, s) for p, s in measured if p.value is not None), key=lambda pair: pair[0])
    passed = [100 * transmission(r) for r, _ in points]
    for name, mark, title in (("fid", "o-", "FID"), ("rfid", "s-", "R-FID"), ("lpips", "^-", "LPIPS")):
        values = [getattr(score.evaluation, name) for _, score in points]
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
