"""Sweeps: one option over a list of values, or the ablation's rows, as variants of one benchmark run.

lam=0.5,0.25,0.2     any numeric option of the method; `lam` alone takes the paper's values
tau=1,1.5,2,sts      fixed factors beside the adaptive one (the paper's STS analysis)
ablation             base, + LAMA, + LAMA + STS, + DDI (the paper's ablation table)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...job import InputError
from ...tables import Cell, Group, Row, Table, markdown
from ..variants import ABLATION, Variant, default_name, parse_variant, variant, with_composites
from .plots import sweep_figure
from .publish import write_forms
from .ranking import ranked_cells
from .scores import COLUMNS, Measurements, VariantScore

ADAPTIVE = "sts"  # as a value of tau
PAPER = {
    "lam": "0.5,0.25,0.2,0.15,0.1",
    "pi": "0.3,0.45,0.6,0.75,0.9,1",
    "r": "0.1,0.3,0.5,0.7,0.9",
    "tau": "1,1.25,1.5,2,3,sts",
}
"""Values of the paper's sweeps; those of tau are ours, for its figure names only 1.5."""


@dataclass(frozen=True)
class Point:
    """A value of the option and the variant that has it; value is None where it is no number."""

    label: str
    value: float | None
    variant: Variant


@dataclass(frozen=True)
class Sweep:
    """option: what is varied, or "ablation"."""

    option: str
    points: tuple[Point, ...]


def parse_sweep(text: str, base: Variant, composite: str | None = None) -> Sweep:
    """OPTION=VALUE,VALUE,..., an OPTION of the paper's alone, or `ablation`; `base` gives the other options.

    composite: for a base that knows one style only; one compositor, not all of them.
    """
    option, mark, values = (part.strip() for part in text.partition("="))
    if option == "ablation":
        if mark:
            raise InputError(f"--over {text}: the ablation's rows are fixed; write --over ablation")
        points = [Point(label, None, parse_variant(row)) for label, row in ABLATION.items()]
        return Sweep(option, tuple(points))
    if not values:
        if option not in PAPER:
            raise InputError(
                f"--over {text}: write OPTION=VALUE,VALUE,...; alone go {', '.join(PAPER)}, ablation"
            )
        values = PAPER[option]
    labels = [label.strip() for label in values.split(",")]
    if len(set(labels)) != len(labels) or len(labels) < 2:
        raise InputError(f"--over {text}: give at least two values, each once")
    if composite == "all":
        raise InputError("--composite all: a sweep varies one thing; choose one compositor")
    points = [_point(base, option, label, text) for label in labels]
    return Sweep(
        option, tuple(Point(p.label, p.value, with_composites([p.variant], composite)[0]) for p in points)
    )


def _point(base: Variant, option: str, label: str, text: str) -> Point:
    if option == "tau" and label == ADAPTIVE:
        kept = {key: value for key, value in base.options.items() if key != option}
        if kept.get("sts") is False:
            raise InputError(f"--over {text}: {base.name} has STS off; {ADAPTIVE} needs it on")
        return Point("STS", None, variant(base.method, kept, None if kept != base.options else base.name))
    try:
        value = float(label)
    except ValueError as error:
        extra = f", or {ADAPTIVE} for the adaptive factor" if option == "tau" else ""
        raise InputError(f"--over {text}: {label!r} is no number{extra}") from error
    name = base.name + default_name("", {option: value})
    return Point(label, value, variant(base.method, {**base.options, option: value}, name))


# ------------------------------------------------------------------------------------------------ tables


def known(sweep: Sweep, found: Measurements, n: int) -> list[tuple[Point, VariantScore]]:
    """The points that were measured for an N."""
    scores = [(point, found.scores.get((point.variant.name, n))) for point in sweep.points]
    return [(point, score) for point, score in scores if score is not None]


def table(sweep: Sweep, found: Measurements) -> Table:
    """A row a value, every metric for each N; best and second best marked where rows are over the same
    samples, and enough of them.
    """
    columns: list[list[Cell]] = []
    for n in found.numbers:
        scores = [found.scores.get((point.variant.name, n)) for point in sweep.points]
        for metric in COLUMNS:
            estimates = [None if score is None else score.evaluation.estimate(metric) for score in scores]
            columns.append(ranked_cells(metric, estimates, [n in found.alike] * len(scores)))
    rows = [
        Row((point.label, point.variant.name), tuple(column[i] for column in columns))
        for i, point in enumerate(sweep.points)
    ]
    return Table(
        f"sweep-{sweep.option}",
        "Ablation" if sweep.option == "ablation" else f"Sweep over {sweep.option}",
        found.ranked_caption(),
        (sweep.option, "variant"),
        tuple(Group(f"N={n}", tuple(metric.heading for metric in COLUMNS)) for n in found.numbers),
        tuple(rows),
    )


def _rows(sweep: Sweep, found: Measurements) -> list[tuple[dict[str, Any], VariantScore]]:
    """What every point of every N is called, and its score."""
    return [
        ({"label": point.label, "value": point.value}, score)
        for n in found.numbers
        for point, score in known(sweep, found, n)
    ]


def to_dict(sweep: Sweep, found: Measurements) -> dict[str, Any]:
    return {
        "kind": "mast-bench-sweep",
        "version": 1,
        "over": sweep.option,
        "rows": [{**point, **score.to_dict()} for point, score in _rows(sweep, found)],
        "notes": found.notes,
    }


def save(sweep: Sweep, found: Measurements, out: Path) -> list[Path]:
    """OUT/sweep-OPTION.md, .tex, .csv and .json, and a .png for each N where matplotlib is installed."""
    figures = {f"-n{n}": sweep_figure(sweep, known(sweep, found, n), n) for n in found.numbers}
    made = table(sweep, found)
    return write_forms(
        out / f"sweep-{sweep.option}",
        markdown(made),
        [made],
        [{**point, **score.to_row()} for point, score in _rows(sweep, found)],
        to_dict(sweep, found),
        {more: figure for more, figure in figures.items() if figure is not None},
    )
