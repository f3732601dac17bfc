"""The paper's tables from a run folder: comparison, ablation, compositing, and R-FID beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...methods import METHODS
from ...tables import Cell, Group, Row, Table, number
from ..data.manifest import Manifest
from ..variants import STRATEGIES
from .results import VariantRun, differences
from .scores import METRICS, Measure, MethodScores, Score, Scores, entries, marks, measure_all, spearman

FAMILIES = {"global-single": "G-S", "regional-single": "R-S", "regional-multi": "R-M"}
UNKNOWN = "-"  # of a method this mast does not have
SWITCHES = ("lama", "sts", "ddi")
STEPS = ((False, False, False), (True, False, False), (True, True, False), (True, True, True))  # Table 3
BELONGS = {"pi": "lama", "mass_floor": "lama", "tau": "sts", "r": "ddi"}
RELATED = ("artfid", "fid", "lpips", "mfid")


@dataclass
class BenchReport:
    """All that was found. `failures`: by variant, the reason of every sample that could not be made."""

    manifest: Manifest
    rows: list[MethodScores]
    scores: list[Score]
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
    numbers = sorted({n for _, n in found.scores})
    rows = _in_order(entries(runs, found, numbers))
    steps = _ablation_rows(rows)
    partial = [steps[step].label for step in STEPS[1:3] if step in steps]
    compared = [entry for entry in rows if entry.label not in partial]
    caption = _caption(found, numbers)
    tables = [_comparison(compared, numbers, found, caption)]
    if len(steps) > 1:
        tables.append(_ablation(steps, numbers, found, caption))
    if any(run.composite for run in runs):
        tables.append(_compositing(runs, rows, numbers, found, caption))
    correlations = _correlations(rows, numbers)
    if any(value is not None for column in correlations.values() for value in column.values()):
        tables.append(_spearman(correlations, len(rows), numbers))
    tables.append(_support(rows, numbers, caption))
    notes = [*differences(runs), *found.notes]
    if partial:
        notes.append(f"{' and '.join(partial)} stand in the ablation only, not in the comparison")
    failures = {run.name: run.failed for run in runs if run.failed}
    scores = list(found.scores.values())
    return BenchReport(manifest, rows, scores, tables, notes, failures, correlations)


def _in_order(rows: list[MethodScores]) -> list[MethodScores]:
    """As in the paper: G-S, R-S, R-M, and MAST itself last."""
    places = [*FAMILIES.values(), UNKNOWN]
    return sorted(rows, key=lambda e: (places.index(family(e.run)), e.label == "mast", e.label))


def family(run: VariantRun) -> str:
    method = METHODS.get(str(run.options.get("name", run.method)))
    return FAMILIES[method.family] if method is not None else UNKNOWN


def _caption(found: Scores, numbers: Sequence[int]) -> str:
    """What measured the numbers, and over how many pictures."""
    one = next(iter(found.scores.values()))
    counts = "; ".join(f"n = {_counts(found, n)} for N = {n}" for n in numbers)
    return (
        f"{counts}. Inception: {one.networks.get('inception', 'unknown')}; LPIPS: "
        f"{one.networks.get('lpips', 'unknown')}; R-FID: {one.repeats} draws, seed {one.seed}. "
        "Lower is better."
    )


def _counts(found: Scores, n: int) -> str:
    counts = {score.samples for (_, k), score in found.scores.items() if k == n}
    return str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


# ------------------------------------------------------------------------------------------------ tables


def _metric_cells(
    rows: Sequence[MethodScores], numbers: Sequence[int], found: Scores, ranked: Sequence[MethodScores]
) -> tuple[tuple[Group, ...], list[tuple[Cell, ...]]]:
    """ArtFID, FID, LPIPS and R-FID for each N and on average; best and second best of `ranked` marked, where
    the rows are over the same samples.
    """
    averaged = len(numbers) > 1
    columns: list[list[Cell]] = []
    for metric in METRICS:
        for n in [*numbers, None] if averaged else numbers:
            values = [e.average(metric, numbers) if n is None else e.value(metric, n) for e in rows]
            alike = n in found.alike if n is not None else found.alike >= set(numbers)
            contest = [
                value if e in ranked and alike else None for e, value in zip(rows, values, strict=True)
            ]
            columns.append(
                [number(value, mark=mark) for value, mark in zip(values, marks(contest), strict=True)]
            )
    heads = tuple([f"N={n}" for n in numbers] + (["Avg"] if averaged else []))
    groups = [Group(f"{title} ↓", heads) for title in METRICS.values()]
    if any(len({e.scores[n].samples for e in rows if n in e.scores}) > 1 for n in numbers):
        groups.append(Group("n", tuple(f"N={n}" for n in numbers)))
        for n in numbers:
            columns.append([Cell(str(e.scores[n].samples) if n in e.scores else "-") for e in rows])
    return tuple(groups), [tuple(cells) for cells in zip(*columns, strict=True)]


def _comparison(rows: Sequence[MethodScores], numbers: Sequence[int], found: Scores, caption: str) -> Table:
    groups, cells = _metric_cells(rows, numbers, found, rows)
    chosen = any(entry.chosen for entry in rows)
    more = " Best bold, second best underlined."
    if len(numbers) > 1:
        more += " Avg is the mean over N."
    if chosen:
        more += " Composited methods are shown with the compositor of the lowest ArtFID for each N."
    labels = [(family(entry.run), entry.label) for entry in rows]
    body = tuple(Row(label, row) for label, row in zip(labels, cells, strict=True))
    return Table("comparison", "Comparison", caption + more, ("family", "method"), groups, body)


def _ablation_rows(rows: Sequence[MethodScores]) -> dict[tuple[bool, ...], MethodScores]:
    """MAST's variants that differ in nothing but lama, sts and ddi, by these switches. An option counts only
    where what it belongs to is on: tau says nothing about a row without STS.
    """
    found: list[tuple[tuple[bool, ...], dict[str, Any], MethodScores]] = []
    for entry in rows:
        options = dict(entry.run.options)
        if options.pop("name", None) in ("mast", "shared") and all(s in options for s in SWITCHES):
            switches = tuple(bool(options.pop(switch)) for switch in SWITCHES)
            if switches in STEPS:
                found.append((switches, options, entry))
    best: dict[tuple[bool, ...], MethodScores] = {}
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


def _ablation(
    steps: dict[tuple[bool, ...], MethodScores], numbers: Sequence[int], found: Scores, caption: str
) -> Table:
    """Table 3; the base is shown but not ranked, as in the paper."""
    present = [step for step in STEPS if step in steps]
    rows = [steps[step] for step in present]
    groups, cells = _metric_cells(rows, numbers, found, [steps[step] for step in present if step != STEPS[0]])
    body = tuple(
        Row((*("✓" if on else "" for on in step), steps[step].label), row)
        for step, row in zip(present, cells, strict=True)
    )
    more = " The base, without any of the three, is not ranked."
    return Table("ablation", "Ablation", caption + more, ("LAMA", "STS", "DDI", "variant"), groups, body)


def _compositing(
    runs: Sequence[VariantRun],
    rows: Sequence[MethodScores],
    numbers: Sequence[int],
    found: Scores,
    caption: str,
) -> Table:
    """ArtFID of every compositor (App. A.8); the one chosen for a method and N is marked."""
    body = []
    for entry in rows:
        group = [run for run in runs if run.composite and run.method == entry.run.method and entry.chosen]
        for run in sorted(group, key=lambda run: STRATEGIES.index(str(run.composite))):
            cells = []
            for n in numbers:
                score = found.scores.get((run.name, n))
                mark = "best" if entry.chosen.get(n) == run.composite else ""
                cells.append(number(score.artfid if score else None, mark=mark))
            body.append(Row((entry.label, str(run.composite)), tuple(cells)))
    heads = tuple(f"N={n}" for n in numbers)
    more = " Bold: the compositor chosen for that method and N."
    labels = ("method", "compositor")
    return Table(
        "compositing", "Compositing", caption + more, labels, (Group("ArtFID ↓", heads),), tuple(body)
    )


def _correlations(rows: Sequence[MethodScores], numbers: Sequence[int]) -> dict[str, dict[str, float | None]]:
    """Spearman's correlation of R-FID with the others, over the rows of each N and over all of them."""
    found: dict[str, dict[str, float | None]] = {}
    for metric in RELATED:
        column: dict[str, float | None] = {}
        for name, wanted in [*((str(n), [n]) for n in numbers), ("all", list(numbers))]:
            pairs = [(e.value("rfid", n), e.value(metric, n)) for e in rows for n in wanted]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            column[name] = spearman([a for a, _ in known], [b for _, b in known])
        found[metric] = column
    return found


def _spearman(correlations: dict[str, dict[str, float | None]], rows: int, numbers: Sequence[int]) -> Table:
    keys = [*map(str, numbers), "all"]
    titles = {**METRICS, "mfid": "M-FID"}
    body = tuple(
        Row((titles[metric],), tuple(number(column[key]) for key in keys))
        for metric, column in correlations.items()
    )
    caption = f"Spearman rank correlation with R-FID over {rows} rows; 'all' takes every row at every N."
    heads = (*(f"N={n}" for n in numbers), "all")
    return Table("spearman", "R-FID and the other metrics", caption, ("metric",), (Group("", heads),), body)


def _support(rows: Sequence[MethodScores], numbers: Sequence[int], caption: str) -> Table:
    """M-FID beside R-FID as regions get smaller (App., Table on support matching)."""
    heads = (*(f"N={n}" for n in numbers), "range")
    body = []
    for entry in rows:
        cells: list[Cell] = []
        for metric in ("mfid", "rfid"):
            values = [entry.value(metric, n) for n in numbers]
            known = [value for value in values if value is not None]
            spread = max(known) - min(known) if len(known) == len(numbers) > 1 else None
            cells += [number(value) for value in values] + [number(spread)]
        body.append(Row((entry.label,), tuple(cells)))
    groups = (Group("M-FID ↓", heads), Group("R-FID ↓", heads))
    return Table(
        "support", "M-FID and R-FID by the number of regions", caption, ("method",), groups, tuple(body)
    )
