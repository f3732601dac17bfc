"""The paper's radar charts (Fig. us_result): means divided by the points of the scale, on an axis from .30
to .95."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..analysis.report import figures
from .folder import Study
from .ratings import SIMULATED
from .statistics import StudyStatistics

LOW, HIGH = 0.30, 0.95
RINGS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COLOURS = (
    "#e6194b",
    "#4363d8",
    "#3cb44b",
    "#f58231",
    "#911eb4",
    "#008b9c",
    "#8a6d00",
    "#c2188b",
    "#555555",
    "#6b8e23",
)
ACROSS = 3  # charts side by side


def radar_values(study: Study, found: StudyStatistics, method: str) -> list[float | None]:
    """A method's means over all cases divided by the points of the scale, in the order of the criteria."""
    means = [found.score(method, one.name).mean for one in study.criteria]
    return [None if mean is None else mean / study.points for mean in means]


def radar_figure(study: Study, found: StudyStatistics, simulated: bool = False) -> Any:
    """A chart for each method and one with all of them, (a), (b), ... as in the paper; a matplotlib
    figure."""
    methods = list(study.methods)
    rows = -(-(len(methods) + 1) // ACROSS)
    figure = figures()(figsize=(4.3 * ACROSS, 4.1 * rows + 0.4))
    for i, method in enumerate(methods):
        axes = _axes(figure, study, (rows, ACROSS, i + 1))
        _draw(axes, radar_values(study, found, method), COLOURS[i % len(COLOURS)], method, fill=0.25)
        axes.set_title(f"({_letter(i)}) {method}", fontsize=11, pad=18)
    axes = _axes(figure, study, (rows, ACROSS, len(methods) + 1))
    _overlay(axes, study, found)
    axes.set_title(f"({_letter(len(methods))}) all methods", fontsize=11, pad=18)
    figure.suptitle(_caption(study, found, simulated), fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.985), h_pad=2.5)
    return figure


def overlay_figure(study: Study, found: StudyStatistics, simulated: bool = False) -> Any:
    """All methods in one chart, with their names."""
    figure = figures()(figsize=(7.2, 5.6))
    axes = _axes(figure, study, (1, 1, 1))
    _overlay(axes, study, found)
    axes.legend(loc="center left", bbox_to_anchor=(1.18, 0.5), frameon=False, fontsize=9)
    figure.suptitle(_caption(study, found, simulated), fontsize=11)
    figure.tight_layout()
    return figure


def _caption(study: Study, found: StudyStatistics, simulated: bool) -> str:
    people = max((score.people for score in found.scores), default=0)
    who = f"{people} {SIMULATED} raters, no people" if simulated else f"{people} people"
    return f"Means / {study.points} of {who}; axes from {LOW:.2f} to {HIGH:.2f}"


def _letter(i: int) -> str:
    return chr(ord("a") + i) if i < 26 else str(i + 1)


def _overlay(axes: Any, study: Study, found: StudyStatistics) -> None:
    for i, method in enumerate(study.methods):
        style = ("-", "--", "-.", ":")[(i // 3) % 4]  # told apart without colours too
        _draw(axes, radar_values(study, found, method), COLOURS[i % len(COLOURS)], method, style=style)


def _draw(
    axes: Any, values: Sequence[float | None], colour: str, label: str, fill: float = 0.0, style: str = "-"
) -> None:
    """A closed line; below the axis it lies on its end, as what is outside a chart cannot be seen."""
    inside = [min(max(LOW if value is None else value, LOW), HIGH) for value in values]
    angles = [2 * math.pi * i / len(inside) for i in range(len(inside))]
    axes.plot([*angles, angles[0]], [*inside, inside[0]], style, color=colour, linewidth=1.6, label=label)
    if fill:
        axes.fill([*angles, angles[0]], [*inside, inside[0]], color=colour, alpha=fill)
        axes.plot(angles, inside, "o", color=colour, markersize=4)


def _axes(figure: Any, study: Study, place: tuple[int, int, int]) -> Any:
    axes = figure.add_subplot(*place, projection="polar")
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_ylim(LOW, HIGH)
    axes.set_yticks(RINGS, [f"{ring:.1f}"[1:] for ring in RINGS], fontsize=7, color="#555555")
    axes.set_rlabel_position(180 / len(study.criteria))
    labels = [one.label.replace(" ", "\n", 1) for one in study.criteria]
    axes.set_xticks([2 * math.pi * i / len(labels) for i in range(len(labels))], labels, fontsize=8)
    axes.tick_params(axis="x", pad=4)
    for i, label in enumerate(axes.get_xticklabels()):  # beside the circle, never over it
        side = math.sin(2 * math.pi * i / len(labels))
        label.set_horizontalalignment("center" if abs(side) < 0.01 else "left" if side > 0 else "right")
    axes.grid(color="#cccccc", linewidth=0.7)
    axes.spines["polar"].set_color("#999999")
    return axes
