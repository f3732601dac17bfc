"""Every variant measured for every N, on the same samples; and which compositor a method is shown with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ...job import InputError
from ...metrics.evaluate import Evaluation
from ...metrics.samples import Collection
from ..data.manifest import BenchSample, Manifest
from .results import VariantRun, collection

Measure: TypeAlias = Callable[
    [str, Collection], Evaluation
]  # what is measured, for a progress bar; the pictures
METRICS = {"artfid": "ArtFID", "fid": "FID", "lpips": "LPIPS", "rfid": "R-FID"}  # the paper's columns


@dataclass(frozen=True)
class Score:
    """One variant's numbers for one N, over `samples` results where there should be `of`."""

    variant: str
    n: int
    samples: int
    of: int
    artfid: float | None
    fid: float | None
    lpips: float | None
    rfid: float | None
    rfid_std: float | None
    mfid: float | None
    ssim: float | None
    regions: int
    skipped_regions: int
    networks: dict[str, str]
    repeats: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Scores:
    """scores: by (variant, N). alike: the N whose rows are all over the same samples."""

    scores: dict[tuple[str, int], Score]
    alike: set[int]
    notes: list[str]


def measure_all(
    manifest: Manifest, runs: Sequence[VariantRun], measure: Measure, everything: bool = False
) -> Scores:
    """Measures every variant on the samples that all variants of that N have made.

    FID grows as pictures get fewer, and samples differ in difficulty, so numbers over different samples say
    nothing about methods. `everything` takes all that each variant has; `alike` then tells which N still may
    be ranked.
    """
    found = Scores({}, set(), [])
    chosen = [part for n in manifest.counts() for part in _choose(manifest.of(n), runs, everything, found)]
    if not chosen:
        raise InputError(
            f"{runs[0].folder.parent}: no sample that all variants have made; wait for mast bench run, name "
            "some variants with --variant, or take what each has with --all"
        )
    pictures = [(run, samples, collection(run, samples)) for run, samples in chosen]
    _refuse({key: text for _, _, part in pictures for key, text in part.problems.items()})
    problems: dict[str, str] = {}
    for run, samples, part in pictures:
        n = samples[0].n
        report = measure(f"{run.name}, N = {n}", part)
        for key, text in report.excluded.items():  # a file goes by its path, or by its sample's id
            problems.setdefault(str(run.folder / f"{key}.png") if key in run.done else key, text)
        found.scores[run.name, n] = _score(run.name, n, len(manifest.of(n)), report)
        found.notes += [note for note in report.notes if note not in found.notes]
    _refuse(problems)
    return found


def _choose(
    samples: Sequence[BenchSample], runs: Sequence[VariantRun], everything: bool, found: Scores
) -> list[tuple[VariantRun, list[BenchSample]]]:
    """The samples of one N that each variant is measured on; what is to be said of them goes to the notes."""
    n, expected = samples[0].n, len(samples)
    made = {run.name: [s for s in samples if s.id in run.done] for run in runs}
    begun = [run for run in runs if made[run.name]]
    found.notes += [f"N = {n}: {run.name} has no sample yet" for run in runs if run not in begun]
    common = [s for s in samples if begun and all(s.id in run.done for run in begun)]
    same = all(len(made[run.name]) == len(common) for run in begun)
    listed = ", ".join(f"{run.name} {len(made[run.name])}" for run in begun) + f" of {expected}"
    if same or not everything:
        found.alike.add(n)
    if not same and everything:
        found.notes.append(
            f"N = {n}: the rows are over different samples ({listed}): not comparable, so none is best"
        )
    elif not same:
        found.notes.append(
            f"N = {n}: compared on the {len(common)} samples that all variants have ({listed})"
        )
    elif begun and len(common) < expected:
        found.notes.append(f"N = {n}: {len(common)} of {expected} samples are made")
    parts = [(run, made[run.name] if everything else common) for run in begun]
    return [(run, part) for run, part in parts if part]


def _refuse(problems: dict[str, str]) -> None:
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems.values())
        raise InputError(
            f"{len(problems)} results cannot be measured; delete them, and mast bench run makes them again:"
            f"{listed}"
        )


def _score(variant: str, n: int, expected: int, report: Evaluation) -> Score:
    return Score(
        variant,
        n,
        report.n,
        expected,
        report.artfid,
        report.fid,
        report.lpips,
        report.rfid,
        report.rfid_std,
        report.mfid,
        report.ssim,
        report.n_regions,
        report.skipped_regions,
        dict(report.networks),
        report.repeats,
        report.seed,
    )


# ------------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class MethodScores:
    """A row of the comparison: a variant, or a method with the compositor chosen for each N."""

    label: str
    run: VariantRun
    scores: dict[int, Score]
    chosen: dict[int, str]  # compositor by N, empty where nothing is joined

    def value(self, metric: str, n: int) -> float | None:
        return getattr(self.scores[n], metric) if n in self.scores else None

    def average(self, metric: str, numbers: Sequence[int]) -> float | None:
        """The mean over all N; None when one of them is missing, because the others are no substitute."""
        values = [self.value(metric, n) for n in numbers]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known and len(known) == len(values) else None


def entries(runs: Sequence[VariantRun], found: Scores, numbers: Sequence[int]) -> list[MethodScores]:
    """One row a method. Of variants that differ in the compositor only, each N shows the one with the lowest
    ArtFID over the data set (App. A.8).
    """
    methods: dict[str, list[VariantRun]] = {}
    alone = {run.name for run in runs if run.composite is None}
    for run in runs:
        method = f"{run.method} (composited)" if run.composite and run.method in alone else run.method
        methods.setdefault(method, []).append(run)
    rows = []
    for method, group in methods.items():
        scores: dict[int, Score] = {}
        chosen: dict[int, str] = {}
        for n in numbers:
            known = [found.scores[run.name, n] for run in group if (run.name, n) in found.scores]
            if not known:
                continue
            best = min(known, key=lambda score: float("inf") if score.artfid is None else score.artfid)
            scores[n] = best
            strategy = next(run.composite for run in group if run.name == best.variant)
            if strategy is not None:
                chosen[n] = strategy
        rows.append(MethodScores(method, group[0], scores, chosen))
    return rows


# ------------------------------------------------------------------------------------------


FEWEST = 3  # pairs below which a correlation says nothing


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for i in order[first : last + 1]:
            found[i] = (first + last) / 2 + 1
        first = last + 1
    return found


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The correlation of the ranks of a and b, in [-1, 1]; None for fewer than three pairs, or where one of
    them is the same everywhere.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values beside {len(b)}")
    if len(a) < FEWEST:
        return None
    x, y = ranks(a), ranks(b)
    middle = (len(a) + 1) / 2  # the mean of the ranks, ties or not
    across = sum((i - middle) * (j - middle) for i, j in zip(x, y, strict=True))
    spread = sum((i - middle) ** 2 for i in x) * sum((j - middle) ** 2 for j in y)
    return max(-1.0, min(1.0, across / math.sqrt(spread))) if spread else None


def marks(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """'best' for the smallest, 'second' for the next, '' for the rest; what prints alike ranks alike. Fewer
    than two values are no contest.
    """
    shown = [None if value is None else round(value, digits) for value in values]
    known = sorted({value for value in shown if value is not None})
    if sum(value is not None for value in shown) < 2:
        return [""] * len(values)
    names = dict(zip(known, ("best", "second"), strict=False))
    return [names.get(value, "") if value is not None else "" for value in shown]
