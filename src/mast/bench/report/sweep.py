"""Sweeps: one option over a list of values, or the ablation's rows, as variants of one benchmark run.

lam=0.5,0.25,0.2     any numeric option of the method; `lam` alone takes the paper's values
tau=1,1.5,2,sts      fixed factors beside the adaptive one (the paper's STS analysis)
ablation             base, + LAMA, + LAMA + STS, + DDI (the paper's ablation table)
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files import atomic
from ...job import InputError
from ...tables import Cell, Group, Row, Table, latex, markdown, number
from ..variants import ABLATION, Variant, default_name, parse_variant, variant, with_composites
from .scores import METRICS, Score, Scores, marks

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


def known(sweep: Sweep, found: Scores, n: int) -> list[tuple[Point, Score]]:
    """The points that were measured for an N."""
    scores = [(point, found.scores.get((point.variant.name, n))) for point in sweep.points]
    return [(point, score) for point, score in scores if score is not None]


def table(sweep: Sweep, found: Scores) -> Table:
    """A row a value, ArtFID, FID, LPIPS and R-FID for each N; best and second best marked where rows are over
    the same samples.
    """
    numbers = sorted({n for _, n in found.scores})
    columns: list[list[Cell]] = []
    for n in numbers:
        scores = [found.scores.get((point.variant.name, n)) for point in sweep.points]
        for metric in METRICS:
            values = [None if score is None else getattr(score, metric) for score in scores]
            ranked = marks(values) if n in found.alike else [""] * len(values)
            columns.append([number(value, mark=mark) for value, mark in zip(values, ranked, strict=True)])
    rows = [
        Row((point.label, point.variant.name), tuple(column[i] for column in columns))
        for i, point in enumerate(sweep.points)
    ]
    groups = tuple(Group(f"N={n}", tuple(f"{title} ↓" for title in METRICS.values())) for n in numbers)
    return Table(
        f"sweep-{sweep.option}",
        "Ablation" if sweep.option == "ablation" else f"Sweep over {sweep.option}",
        _caption(found, numbers),
        (sweep.option, "variant"),
        groups,
        tuple(rows),
    )


def _caption(found: Scores, numbers: Sequence[int]) -> str:
    first = next(iter(found.scores.values()))
    counts = {n: sorted({s.samples for (_, k), s in found.scores.items() if k == n}) for n in numbers}
    sizes = "; ".join(f"n = {' to '.join(map(str, count))} for N = {n}" for n, count in counts.items())
    networks = f"Inception: {first.networks.get('inception')}; LPIPS: {first.networks.get('lpips')}"
    return f"{sizes}. {networks}; R-FID: {first.repeats} draws, seed {first.seed}. Lower is better."


def to_dict(sweep: Sweep, found: Scores) -> dict[str, Any]:
    numbers = sorted({n for _, n in found.scores})
    rows = [
        {"label": point.label, "value": point.value, **score.to_dict()}
        for n in numbers
        for point, score in known(sweep, found, n)
    ]
    return {
        "kind": "mast-bench-sweep",
        "version": 1,
        "over": sweep.option,
        "rows": rows,
        "notes": found.notes,
    }


def save(sweep: Sweep, found: Scores, out: Path) -> list[Path]:
    """OUT/sweep-OPTION.md, .tex, .csv and .json, and a .png for each N where matplotlib is installed."""
    from .plots import figure

    whole, made = to_dict(sweep, found), table(sweep, found)
    stem, written = f"sweep-{sweep.option}", []
    for n in sorted({n for _, n in found.scores}):
        drawn = figure(sweep, known(sweep, found, n), n)
        if drawn is not None:
            with atomic(out / f"{stem}-n{n}.png") as part:
                drawn.savefig(part, format="png", dpi=150)
            written.append(out / f"{stem}-n{n}.png")
    texts = {
        ".md": markdown(made),
        ".tex": "% needs: \\usepackage{booktabs,amssymb}\n\n" + latex(made),
        ".csv": _csv(whole["rows"]),
        ".json": json.dumps(whole, indent=1, ensure_ascii=False) + "\n",
    }
    for suffix, text in texts.items():
        with atomic(out / f"{stem}{suffix}") as part:
            part.write_text(text, encoding="utf-8")
        written.append(out / f"{stem}{suffix}")
    return written


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    names = [name for name in rows[0] if name != "networks"] if rows else []
    writer = csv.DictWriter(buffer, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
