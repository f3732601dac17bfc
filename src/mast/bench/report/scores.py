"""Every variant measured for every N, on the same samples; and which compositor a method is shown with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...job import InputError
from ...metrics.evaluation import METRICS, Estimate, Evaluation, Metric
from ...metrics.intervals import SHARE
from ...metrics.samples import Collection
from ..data.manifest import BenchSample, Manifest
from ..variants import STRATEGIES
from .results import VariantRun, collection

# What is measured, for a progress bar, and the pictures.
Measure: TypeAlias = Callable[[str, Collection], Evaluation]
# The paper's columns, and two that can be ranked by where samples are few.
COLUMNS = tuple(METRICS[name] for name in ("artfid", "fid", "lpips", "rfid", "rkid", "cosine"))
NUMBERS = (
    *("artfid", "fid", "lpips", "rfid", "rfid_std", "rfid_mean_term", "rfid_trace_term", "region_variance"),
    *("mfid", "rkid", "rkid_std", "cosine", "ssim"),
)  # of an evaluation, as files have them


@dataclass(frozen=True)
class VariantScore:
    """One variant's evaluation for one N, over as many results as it says where there should be `of`."""

    variant: str
    n: int
    of: int
    evaluation: Evaluation

    @property
    def samples(self) -> int:
        return self.evaluation.n

    def to_dict(self) -> dict[str, Any]:
        measured = self.evaluation
        return {
            "variant": self.variant,
            "n": self.n,
            "samples": self.samples,
            "of": self.of,
            **{name: getattr(measured, name) for name in NUMBERS},
            "intervals": {name: list(ends) for name, ends in measured.intervals.items()},
            "regions": measured.n_regions,
            "skipped_regions": measured.skipped_regions,
            "networks": dict(measured.networks),
            "repeats": measured.repeats,
            "seed": measured.seed,
        }

    def to_row(self) -> dict[str, Any]:
        """The same, flat: the ends of the intervals and the networks in columns of their own."""
        row = self.to_dict()
        intervals, networks = row.pop("intervals"), row.pop("networks")
        for metric in METRICS.values():
            if not metric.frechet and metric.name in NUMBERS:
                ends = intervals.get(metric.name, (None, None))
                row |= {f"{metric.name}_low": ends[0], f"{metric.name}_high": ends[1]}
        return {**row, "inception": networks.get("inception"), "lpips_net": networks.get("lpips")}


@dataclass
class Measurements:
    """scores: by (variant, N). alike: the N whose rows are all over the same samples."""

    scores: dict[tuple[str, int], VariantScore]
    alike: set[int]
    notes: list[str]

    @property
    def numbers(self) -> list[int]:
        """Every N that was measured."""
        return sorted({n for _, n in self.scores})

    def caption(self) -> str:
        """What measured the numbers, and over how many pictures."""
        one = next(iter(self.scores.values())).evaluation
        counts = []
        for n in self.numbers:
            found = {score.samples for (_, k), score in self.scores.items() if k == n}
            counts.append(f"n = {' to '.join(map(str, sorted({min(found), max(found)})))} for N = {n}")
        return (
            f"{'; '.join(counts)}. Inception: {one.networks.get('inception', 'unknown')}; LPIPS: "
            f"{one.networks.get('lpips', 'unknown')}; R-FID and R-KID: {one.repeats} draws, seed {one.seed}."
        )

    def ranked_caption(self) -> str:
        """The same of a table whose best are marked: when they are, and what is not ranked."""
        return (
            f"{self.caption()} Best bold, second best underlined, where no other row's {SHARE:.0%} interval "
            f"overlaps theirs.{self.not_ranked()}"
        )

    def not_ranked(self) -> str:
        """Which columns have too few samples to be ranked by, and for which N; empty where none has."""
        parts: dict[tuple[int, tuple[int, ...]], list[str]] = {}
        for metric in COLUMNS:
            short = tuple(n for n in self.numbers if any(self._too_few(metric, n)))
            if short:
                parts.setdefault((metric.least, short), []).append(metric.title)
        return "".join(
            f" Not ranked, for n below {least:,} is too few: {', '.join(titles)}"
            + ("." if list(short) == self.numbers else f" at N = {', '.join(map(str, short))}.")
            for (least, short), titles in parts.items()
        )

    def _too_few(self, metric: Metric, n: int) -> list[bool]:
        found = [score.evaluation.estimate(metric) for (_, k), score in self.scores.items() if k == n]
        return [not estimate.enough for estimate in found if estimate is not None]


def measure_all(
    manifest: Manifest, runs: Sequence[VariantRun], measure: Measure, everything: bool = False
) -> Measurements:
    """Measures every variant on the samples that all variants of that N have made.

    FID grows as pictures get fewer, and samples differ in difficulty, so numbers over different samples say
    nothing about methods. `everything` takes all that each variant has; `alike` then tells which N still may
    be ranked.
    """
    found = Measurements({}, set(), [])
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
        found.scores[run.name, n] = VariantScore(run.name, n, len(manifest.of(n)), report)
        found.notes += [note for note in report.notes if note not in found.notes]
    _refuse(problems)
    return found


def _choose(
    samples: Sequence[BenchSample], runs: Sequence[VariantRun], everything: bool, found: Measurements
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


# ------------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class MethodRow:
    """A row of the comparison: a variant, or a method with the compositor chosen for each N."""

    label: str
    run: VariantRun
    scores: dict[int, VariantScore]
    chosen: dict[int, str]  # compositor by N, empty where nothing is joined

    def estimate(self, metric: Metric, n: int) -> Estimate | None:
        return self.scores[n].evaluation.estimate(metric) if n in self.scores else None

    def average(self, metric: Metric, numbers: Sequence[int]) -> Estimate | None:
        """The mean over all N; None when one of them is missing, because the others are no substitute.

        Its interval is the mean of theirs, which is wider than need be: errors of several N partly cancel.
        """
        known = [found for n in numbers if (found := self.estimate(metric, n)) is not None]
        if not known or len(known) < len(numbers):
            return None
        intervals = [found.interval for found in known if found.interval is not None]
        ends = tuple(sum(side) / len(known) for side in zip(*intervals, strict=True))
        return Estimate(
            sum(found.value for found in known) / len(known),
            (ends[0], ends[1]) if len(intervals) == len(known) else None,
            all(found.enough for found in known),
        )


def method_rows(runs: Sequence[VariantRun], found: Measurements) -> list[MethodRow]:
    """One row a method. Of variants that differ in the compositor only, each N shows the one with the lowest
    ArtFID over the data set (App. A.8). Where there is none to choose by, none is shown. The notes say so and
    name the compositors that were not there to be chosen.
    """
    methods: dict[str, list[VariantRun]] = {}
    alone = {run.name for run in runs if run.composite is None}
    for run in runs:
        method = f"{run.method} (composited)" if run.composite and run.method in alone else run.method
        methods.setdefault(method, []).append(run)
    rows = []
    for method, group in methods.items():
        scores: dict[int, VariantScore] = {}
        chosen: dict[int, str] = {}
        for n in found.numbers:
            known = [found.scores[run.name, n] for run in group if (run.name, n) in found.scores]
            judged = [score for score in known if score.evaluation.artfid is not None]
            if len(known) > 1 and not judged:
                found.notes.append(
                    f"N = {n}: no ArtFID of {method} could be computed, so none of its compositors is chosen"
                )
            if not known or (len(known) > 1 and not judged):
                continue
            best = min(judged, key=_artfid) if judged else known[0]
            scores[n] = best
            strategy = next(run.composite for run in group if run.name == best.variant)
            if strategy is not None:
                chosen[n] = strategy
        if group[0].composite is not None:
            found.notes += _not_to_choose(method, group, found)
        rows.append(MethodRow(method, group[0], scores, chosen))
    return rows


def _artfid(score: VariantScore) -> float:
    assert score.evaluation.artfid is not None
    return score.evaluation.artfid


def _not_to_choose(method: str, group: Sequence[VariantRun], found: Measurements) -> list[str]:
    """Notes on the compositors that a method could not be shown with, by name."""
    run = [run.composite for run in group]
    absent = [strategy for strategy in STRATEGIES if strategy not in run]
    notes = [
        f"{method}: not joined by {' or '.join(absent)}, so the compositor is chosen without "
        f"{'it' if len(absent) == 1 else 'them'}; mast bench run --composite all makes all four"
    ]
    notes = notes if absent else []
    for n in found.numbers:
        scores = {one.composite: found.scores.get((one.name, n)) for one in group}
        known = [name for name, score in scores.items() if score and score.evaluation.artfid is not None]
        none = [strategy for strategy in STRATEGIES if strategy in run and strategy not in known]
        if known and none:
            notes.append(f"N = {n}: {' and '.join(none)} of {method} had no ArtFID to be chosen by")
    return notes
