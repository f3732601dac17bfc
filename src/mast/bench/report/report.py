"""The paper's tables from a run folder: comparison, ablation, compositing, R-FID beside the others; and how
sure the figures are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...metrics.evaluation import METRICS, Metric, describe_certainty
from ...metrics.intervals import SHARE
from ...tables import Cell, Group, Row, Table, number
from ..data.manifest import Manifest
from ..variants import STRATEGIES
from .ranking import ranked_cells, spearman
from .results import FAMILIES, UNKNOWN, VariantRun, differences
from .scores import COLUMNS, Measure, Measurements, MethodRow, VariantScore, measure_all, method_rows

SWITCHES = ("lama", "sts", "ddi")
STEPS = ((False, False, False), (True, False, False), (True, True, False), (True, True, True))  # Table 3
BELONGS = {"pi": "lama", "mass_floor": "lama", "tau": "sts", "r": "ddi"}
RELATED = ("artfid", "fid", "lpips", "mfid", "rkid", "cosine")  # to R-FID


@dataclass
class BenchReport:
    """All that was found. `failures`: by variant, the reason of every sample that could not be made."""

    manifest: Manifest
    rows: list[MethodRow]
    scores: list[VariantScore]
    tables: list[Table]
    notes: list[str]
    failures: dict[str, dict[str, str]]
    correlations: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mast-bench-report",
            "version": 1,
            "manifest": {"path": str(self.manifest.path), "sha256": self.manifest.sha256},
            "scores": [score.to_dict() for score in self.scores],
            "rows": [
                {
                    "method": entry.label,
                    "variants": {str(n): score.variant for n, score in entry.scores.items()},
                    "composite": {str(n): strategy for n, strategy in entry.chosen.items()},
                }
                for entry in self.rows
            ],
            "spearman": self.correlations,
            "failures": self.failures,
            "notes": self.notes,
        }


def build(
    manifest: Manifest, runs: Sequence[VariantRun], measure: Measure, everything: bool = False
) -> BenchReport:
    """Measures every (variant, N) of what `read_runs` found, and makes the tables.

    `measure` computes the metrics of a collection: see mast.metrics.evaluate. `everything` takes what each
    variant has, even where that differs.
    """
    found = measure_all(manifest, runs, measure, everything)
    rows = _in_order(method_rows(runs, found))
    steps = _ablation_rows(rows)
    partial = [steps[step].label for step in STEPS[1:3] if step in steps]
    compared = [entry for entry in rows if entry.label not in partial]
    tables = [_comparison(compared, found)]
    if len(steps) > 1:
        tables.append(_ablation(steps, found))
    if any(score.evaluation.intervals for score in found.scores.values()):
        tables.append(_intervals(rows, found))
    if any(run.composite for run in runs):
        tables.append(_compositing(runs, rows, found))
    correlations = _correlations(rows, found.numbers)
    if any(value is not None for column in correlations.values() for value in column.values()):
        tables.append(_spearman(correlations, len(rows), found))
    tables.append(_support(rows, found))
    notes = [*differences(runs), *found.notes, *_scale(runs, found)]
    if partial:
        notes.append(f"{' and '.join(partial)} stand in the ablation only, not in the comparison")
    failures = {run.name: run.failed for run in runs if run.failed}
    scores = list(found.scores.values())
    return BenchReport(manifest, rows, scores, tables, notes, failures, correlations)


def _scale(runs: Sequence[VariantRun], found: Measurements) -> list[str]:
    """Says when pictures of the paper's protocol are not on the paper's scale."""
    used = {str(score.evaluation.networks.get("inception")) for score in found.scores.values()}
    if not any(run.papers_protocol for run in runs) or all(name.startswith("artfid") for name in used):
        return []
    return [
        f"made by the paper's protocol, but measured with another Inception ({', '.join(sorted(used))}) than "
        "ArtFID's own: FID, R-FID and ArtFID are not on the paper's scale. mast weights fetch art-inception, "
        "or --inception artfid --inception-weights art_inception.pth"
    ]


def _in_order(rows: list[MethodRow]) -> list[MethodRow]:
    """As in the paper: G-S, R-S, R-M, and MAST itself last."""
    places = [*FAMILIES.values(), UNKNOWN]
    return sorted(rows, key=lambda e: (places.index(e.run.family), e.label == "mast", e.label))


# ------------------------------------------------------------------------------------------------ tables


def _value(entry: MethodRow, metric: Metric, n: int) -> float | None:
    found = entry.estimate(metric, n)
    return None if found is None else found.value


def _metric_cells(
    rows: Sequence[MethodRow], found: Measurements, ranked: Sequence[MethodRow]
) -> tuple[tuple[Group, ...], list[tuple[Cell, ...]]]:
    """Every metric for each N and on average; of `ranked` rows the best and second best are marked, where the
    rows are over the same samples.
    """
    numbers = found.numbers
    averaged = len(numbers) > 1
    columns: list[list[Cell]] = []
    for metric in COLUMNS:
        for n in [*numbers, None] if averaged else numbers:
            estimates = [e.average(metric, numbers) if n is None else e.estimate(metric, n) for e in rows]
            alike = n in found.alike if n is not None else found.alike >= set(numbers)
            columns.append(ranked_cells(metric, estimates, [alike and entry in ranked for entry in rows]))
    heads = tuple([f"N={n}" for n in numbers] + (["Avg"] if averaged else []))
    groups = [Group(metric.heading, heads) for metric in COLUMNS]
    if any(len({e.scores[n].samples for e in rows if n in e.scores}) > 1 for n in numbers):
        groups.append(Group("n", tuple(f"N={n}" for n in numbers)))
        for n in numbers:
            columns.append([Cell(str(e.scores[n].samples) if n in e.scores else "-") for e in rows])
    return tuple(groups), [tuple(cells) for cells in zip(*columns, strict=True)]


def _comparison(rows: Sequence[MethodRow], found: Measurements) -> Table:
    groups, cells = _metric_cells(rows, found, rows)
    caption = found.ranked_caption()
    if len(found.numbers) > 1:
        caption += " Avg is the mean over N."
    if any(entry.chosen for entry in rows):
        caption += " Composited methods are shown with the compositor of the lowest ArtFID for each N."
    labels = [(entry.run.family, entry.label) for entry in rows]
    body = tuple(Row(label, row) for label, row in zip(labels, cells, strict=True))
    return Table("comparison", "Comparison", caption, ("family", "method"), groups, body)


def _intervals(rows: Sequence[MethodRow], found: Measurements) -> Table:
    """How sure the figures are that have an interval."""
    metrics = [metric for metric in COLUMNS if not metric.frechet]
    body = []
    for entry in rows:
        cells = [
            Cell(describe_certainty(metric, entry.estimate(metric, n)))
            for metric in metrics
            for n in found.numbers
        ]
        body.append(Row((entry.label,), tuple(cells)))
    caption = (
        f"{found.caption()} {SHARE:.0%} bootstrap intervals over the pictures. A photo and a style are in "
        "several pictures each, so these are rather too narrow."
    )
    groups = tuple(Group(metric.heading, tuple(f"N={n}" for n in found.numbers)) for metric in metrics)
    return Table("intervals", "Intervals", caption, ("method",), groups, tuple(body))


def _ablation_rows(rows: Sequence[MethodRow]) -> dict[tuple[bool, ...], MethodRow]:
    """MAST's variants that differ in nothing but lama, sts and ddi, by these switches. An option counts only
    where what it belongs to is on: tau says nothing about a row without STS.
    """
    found: list[tuple[tuple[bool, ...], dict[str, Any], MethodRow]] = []
    for entry in rows:
        options = dict(entry.run.options)
        if options.pop("name", None) in ("mast", "shared") and all(s in options for s in SWITCHES):
            switches = tuple(bool(options.pop(switch)) for switch in SWITCHES)
            if switches in STEPS:
                found.append((switches, options, entry))
    best: dict[tuple[bool, ...], MethodRow] = {}
    # Fullest first, plain `mast` before sweeps of it: the others are rows of the same ablation if they agree.
    for whole, wanted, anchor in sorted(found, key=lambda f: (-sum(f[0]), f[2].label != "mast", f[2].label)):
        steps = {whole: anchor}
        for switches, options, entry in found:
            on = [s for s, a, b in zip(SWITCHES, switches, whole, strict=True) if a and b]
            counted = [key for key in options if key not in BELONGS or BELONGS[key] in on]
            if sum(switches) < sum(whole) and all(options[key] == wanted.get(key) for key in counted):
                steps.setdefault(switches, entry)
        if len(steps) > len(best):
            best = steps
    return best


def _ablation(steps: dict[tuple[bool, ...], MethodRow], found: Measurements) -> Table:
    """Table 3; the base is shown but not ranked, as in the paper."""
    present = [step for step in STEPS if step in steps]
    rows = [steps[step] for step in present]
    groups, cells = _metric_cells(rows, found, [steps[step] for step in present if step != STEPS[0]])
    body = tuple(
        Row((*("✓" if on else "" for on in step), steps[step].label), row)
        for step, row in zip(present, cells, strict=True)
    )
    caption = found.ranked_caption() + " The base, without any of the three, is not ranked."
    return Table("ablation", "Ablation", caption, ("LAMA", "STS", "DDI", "variant"), groups, body)


def _compositing(runs: Sequence[VariantRun], rows: Sequence[MethodRow], found: Measurements) -> Table:
    """ArtFID of every compositor (App. A.8); the one chosen for a method and N is marked."""
    body = []
    for entry in rows:
        joined = entry.run.composite is not None
        group = [run for run in runs if joined and run.composite and run.method == entry.run.method]
        for run in sorted(group, key=lambda run: STRATEGIES.index(str(run.composite))):
            cells = []
            for n in found.numbers:
                score = found.scores.get((run.name, n))
                mark = "best" if entry.chosen.get(n) == run.composite else ""
                cells.append(Cell(number(score.evaluation.artfid if score else None), mark))
            body.append(Row((entry.label, str(run.composite)), tuple(cells)))
    groups = (Group(METRICS["artfid"].heading, tuple(f"N={n}" for n in found.numbers)),)
    caption = f"{found.caption()} Bold: the compositor chosen for that method and N, by the lowest ArtFID."
    return Table("compositing", "Compositing", caption, ("method", "compositor"), groups, tuple(body))


def _correlations(rows: Sequence[MethodRow], numbers: Sequence[int]) -> dict[str, dict[str, float | None]]:
    """Spearman's correlation of R-FID with the others, over the rows of each N and over all of them."""
    found: dict[str, dict[str, float | None]] = {}
    for metric in RELATED:
        column: dict[str, float | None] = {}
        for name, wanted in [*((str(n), [n]) for n in numbers), ("all", list(numbers))]:
            pairs = [
                (_value(e, METRICS["rfid"], n), _value(e, METRICS[metric], n)) for e in rows for n in wanted
            ]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            column[name] = spearman([a for a, _ in known], [b for _, b in known])
        found[metric] = column
    return found


def _spearman(correlations: dict[str, dict[str, float | None]], rows: int, found: Measurements) -> Table:
    keys = [*map(str, found.numbers), "all"]
    body = tuple(
        Row((METRICS[metric].title,), tuple(Cell(number(column[key])) for key in keys))
        for metric, column in correlations.items()
    )
    caption = (
        f"Spearman rank correlation with R-FID over {rows} rows; 'all' takes every row at every N."
        f"{found.not_ranked()}"
    )
    heads = (*(f"N={n}" for n in found.numbers), "all")
    return Table("spearman", "R-FID and the other metrics", caption, ("metric",), (Group("", heads),), body)


def _support(rows: Sequence[MethodRow], found: Measurements) -> Table:
    """M-FID beside R-FID as regions get smaller (App., Table on support matching)."""
    metrics = (METRICS["mfid"], METRICS["rfid"])
    body = []
    for entry in rows:
        cells: list[Cell] = []
        for metric in metrics:
            values = [_value(entry, metric, n) for n in found.numbers]
            known = [value for value in values if value is not None]
            spread = max(known) - min(known) if len(known) == len(values) > 1 else None
            cells += [Cell(number(value)) for value in [*values, spread]]
        body.append(Row((entry.label,), tuple(cells)))
    heads = (*(f"N={n}" for n in found.numbers), "range")
    groups = tuple(Group(metric.heading, heads) for metric in metrics)
    title = "M-FID and R-FID by the number of regions"
    return Table("support", title, found.caption(), ("method",), groups, tuple(body))
