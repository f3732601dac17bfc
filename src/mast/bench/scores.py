"""Every variant measured for every N, on the same samples; and which compositor a method is shown with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ..job import InputError
from ..metrics.evaluate import Report
from ..metrics.samples import Collection
from .manifest import Manifest, Sample
from .results import Run, collection

Measure: TypeAlias = Callable[[str, Collection], Report]  # what is measured, for a progress bar; the pictures
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
    manifest: Manifest, runs: Sequence[Run], measure: Measure, everything: bool = False
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
    samples: Sequence[Sample], runs: Sequence[Run], everything: bool, found: Scores
) -> list[tuple[Run, list[Sample]]]:
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


def _score(variant: str, n: int, expected: int, report: Report) -> Score:
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
class Entry:
    """A row of the comparison: a variant, or a method with the compositor chosen for each N."""

    label: str
    run: Run
    scores: dict[int, Score]
    chosen: dict[int, str]  # compositor by N, empty where nothing is joined

    def value(self, metric: str, n: int) -> float | None:
        return getattr(self.scores[n], metric) if n in self.scores else None

    def average(self, metric: str, numbers: Sequence[int]) -> float | None:
        """The mean over all N; None when one of them is missing, because the others are no substitute."""
        values = [self.value(metric, n) for n in numbers]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known and len(known) == len(values) else None


def entries(runs: Sequence[Run], found: Scores, numbers: Sequence[int]) -> list[Entry]:
    """One row a method. Of variants that differ in the compositor only, each N shows the one with the lowest
    ArtFID over the data set (App. A.8).
    """
    methods: dict[str, list[Run]] = {}
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
        rows.append(Entry(method, group[0], scores, chosen))
    return rows
