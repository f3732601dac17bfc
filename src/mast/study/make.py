"""A study from `mast bench run` folders: which methods, which cases, and a folder that tells nobody whose
a picture is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image

from ..bench.data.manifest import BenchSample, Manifest, verify
from ..bench.report.results import VariantRun, collection, differences, read_runs
from ..bench.run.records import RUN
from ..files import new_folder, read_json, sha256, shown
from ..images import read_rgb, save_png
from ..job import InputError
from ..pipeline.inputs import read_job
from ..sheets import overlay, region_colour
from .folder import (
    ANSWERS,
    FILE_NAME,
    PICTURES,
    TEXT_NAMES,
    TEXTS,
    RatedPicture,
    Study,
    StudyCase,
    StudyRegion,
    write_study,
)

LARGEST = 2048  # pixels of the longer side that people are shown
UNTOUCHED = "photo"  # the variant of a practice picture that no method made

Methods: TypeAlias = "dict[str, dict[int, VariantRun]]"  # by label, then by N
OnCount: TypeAlias = Callable[[str, int, int], None]


@dataclass
class Choice:
    """What a study will show, before anything is written. notes: what was passed over, and what differs."""

    manifest: Manifest
    methods: Methods
    cases: list[BenchSample]
    practice: tuple[BenchSample, str] | None
    seed: int
    notes: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------ choosing


def choose(
    folders: Sequence[Path],
    asked: Sequence[str] = (),
    cases: Sequence[str] = (),
    numbers: Sequence[int] = (),
    per_n: int = 1,
    seed: int = 0,
    report: Path | None = None,
    manifest_path: Path | None = None,
) -> Choice:
    """Methods and cases, checked.

    asked: VARIANT or LABEL=VARIANT, all variants if none; report: the JSON of `mast bench report`, which says
    for every N which compositor a method was given. cases: samples by id; if none, `per_n` for every N by
    seed.
    """
    labels = dict(_labelled(text) for text in asked)
    if len(labels) < len(asked):
        raise InputError("two methods have one label; give each its own: -m LABEL=VARIANT")
    picked = _picked(report, labels) if report is not None else {}
    wanted = {name for of in picked.values() for name in of.values()} or set(labels.values())
    manifest, runs = _read(folders, sorted(wanted), manifest_path)
    by_id = {sample.id: sample for sample in manifest.samples}
    for id in cases:
        if id not in by_id:
            raise InputError(
                f"--case {id}: {manifest.path} has no such sample; its ids are like {next(iter(by_id))}"
            )
    if len(set(cases)) < len(cases):
        raise InputError("a case is given twice; give each once")
    found = sorted({by_id[id].n for id in cases}) or sorted(numbers) or list(manifest.counts())
    for n in found:
        if n not in manifest.counts():
            raise InputError(
                f"-n {n}: {manifest.path} has no sample of {n} regions; it has {list(manifest.counts())}"
            )
    methods = _by_number(labels or {name: name for name in runs}, picked, runs, found)
    if len(methods) < 2:
        raise InputError(f"one method only ({', '.join(methods)}); a study compares at least two")
    notes = differences([run for of in methods.values() for run in of.values()])
    chosen = [by_id[id] for id in cases]
    if chosen:
        _refuse(chosen, methods)
    else:
        for n in found:
            chosen += _by_seed(manifest, n, per_n, seed, methods, chosen, notes)
    verify(replace(manifest, samples=tuple(chosen)))
    return Choice(manifest, methods, chosen, _practice(manifest, methods, chosen, seed), seed, notes)


def _labelled(text: str) -> tuple[str, str]:
    label, _, variant = text.rpartition("=")
    return (label.strip() or variant.strip(), variant.strip())


def _picked(report: Path, labels: Mapping[str, str]) -> dict[str, dict[int, str]]:
    """The variants of a report's rows, for every N; only of the methods that were asked for."""
    found = read_json(report, "report")
    try:
        rows = {row["method"]: {int(n): str(v) for n, v in row["variants"].items()} for row in found["rows"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{shown(report)}: no report of mast bench; give the .json that mast bench report wrote"
        ) from error
    for name in labels.values():
        if name not in rows:
            raise InputError(f"{shown(report)}: no method is called {name!r}; there are {', '.join(rows)}")
    return {name: rows[name] for name in labels.values()} if labels else rows


def _read(
    folders: Sequence[Path], wanted: Sequence[str], manifest_path: Path | None
) -> tuple[Manifest, dict[str, VariantRun]]:
    """The variants of all run folders, which must be of one manifest, and every name one variant's."""
    manifest: Manifest | None = None
    runs: dict[str, VariantRun] = {}
    for folder in folders:
        here = [name for name in wanted if (folder / name / RUN).is_file()]
        if wanted and not here and len(folders) > 1 and folder.is_dir():
            continue
        of, found = read_runs(folder, manifest_path, here or wanted)
        if manifest is not None and of.sha256 != manifest.sha256:
            raise InputError(
                f"{shown(folder)}: made from another manifest than {shown(folders[0])}; people "
                "would see other cases"
            )
        manifest = of
        for run in found:
            if run.name in runs:
                raise InputError(
                    f"{run.name}: in more than one of the run folders; rename one, or leave a folder out"
                )
            runs[run.name] = run
    for name in wanted:
        if name not in runs:
            there = ", ".join(runs) or "none"
            raise InputError(
                f"no variant is called {name!r} in {', '.join(map(shown, folders))}; there are {there}"
            )
    assert manifest is not None
    return manifest, runs


def _by_number(
    labels: Mapping[str, str],
    picked: Mapping[str, Mapping[int, str]],
    runs: Mapping[str, VariantRun],
    numbers: Sequence[int],
) -> Methods:
    """Every label's variant for every N: the same everywhere, unless a report picked one for each."""
    if not picked:
        return {label: dict.fromkeys(numbers, runs[name]) for label, name in labels.items()}
    back = {name: label for label, name in labels.items()}
    found: Methods = {}
    for name, of in picked.items():
        for n in numbers:
            if n not in of:
                raise InputError(
                    f"{name}: the report says nothing of N = {n}; leave it out with -n, or report again"
                )
        found[back.get(name, name)] = {n: runs[of[n]] for n in numbers}
    return found


def problems(sample: BenchSample, methods: Methods) -> list[str]:
    """Why a case cannot be shown: a line for every method whose picture is missing or was made otherwise."""
    found = []
    for label, of in methods.items():
        run = of[sample.n]
        if sample.id not in run.done:
            why = run.failed.get(sample.id)
            found.append(
                f"{sample.id}: {label} has no picture of it ({f'failed: {why}' if why else 'not made yet'})"
            )
        else:
            found += [f"{sample.id}: {label}: {why}" for why in collection(run, [sample]).problems.values()]
    return found


def _refuse(samples: Sequence[BenchSample], methods: Methods) -> None:
    wrong = [problem for sample in samples for problem in problems(sample, methods)]
    if wrong:
        listed = "".join(f"\n  {problem}" for problem in wrong)
        raise InputError(
            f"incomplete cases; run what is missing with mast bench run, leave a method out (-m), or choose "
            f"other "
            f"cases:{listed}"
        )


def _drawn(samples: Sequence[BenchSample], seed: int) -> list[BenchSample]:
    """In an order that depends on the seed and the ids alone."""
    return sorted(samples, key=lambda sample: hashlib.sha256(f"{seed}:{sample.id}".encode()).digest())


def _by_seed(
    manifest: Manifest,
    n: int,
    count: int,
    seed: int,
    methods: Methods,
    before: Sequence[BenchSample],
    notes: list[str],
) -> list[BenchSample]:
    """The first complete samples in the seed's order, those of photos that no case shows yet before
    others."""
    shown_photos = {sample.content.sha256 for sample in before}
    found: list[BenchSample] = []
    wrong: list[str] = []
    left = _drawn(manifest.of(n), seed)
    while left and len(found) < count:
        fresh = [sample for sample in left if sample.content.sha256 not in shown_photos]
        sample = (fresh or left)[0]
        left.remove(sample)
        if why := problems(sample, methods):
            wrong += why
            continue
        found.append(sample)
        shown_photos.add(sample.content.sha256)
    if len(found) < count:
        listed = "".join(f"\n  {problem}" for problem in wrong[:20])
        raise InputError(f"N = {n}: {len(found)} of {count} cases have a picture of every method:{listed}")
    notes += [f"passed over: {problem}" for problem in wrong]
    return found


def _practice(
    manifest: Manifest, methods: Methods, cases: Sequence[BenchSample], seed: int
) -> tuple[BenchSample, str] | None:
    """A picture that is not rated, of a sample that is no case; None where there is no such picture."""
    taken, photos = {case.id for case in cases}, {case.content.sha256 for case in cases}
    numbers = {case.n for case in cases}
    others = [s for s in _drawn(manifest.samples, seed) if s.id not in taken and s.n in numbers]
    for sample in sorted(others, key=lambda s: s.content.sha256 in photos):
        for label in sorted(methods, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest()):
            one = {label: methods[label]}
            if not problems(sample, one):
                return sample, label
    return None


# ------------------------------------------------------------------------------------------------ writing


def make(
    choice: Choice, folder: Path, title: str, overwrite: bool = False, on_count: OnCount | None = None
) -> Study:
    """Writes the study's folder, whole or not at all. A folder that holds answers is never replaced."""
    check_target(folder, overwrite)
    total = len(choice.cases) + 1
    with new_folder(folder) as part:
        (part / PICTURES).mkdir()
        (part / TEXTS).mkdir()
        gallery = _Gallery(part / PICTURES, choice.seed)
        cases = []
        for i, sample in enumerate(choice.cases):
            pictures = {
                label: (of[sample.n].folder / f"{sample.id}.png", of[sample.n].name)
                for label, of in choice.methods.items()
            }
            cases.append(_case(f"case-{i + 1}", sample, pictures, gallery))
            if on_count is not None:
                on_count("cases", i + 1, total)
        practice = _practice_case(choice, gallery)
        if on_count is not None:
            on_count("cases", total, total)
        for name in TEXT_NAMES:
            text = (Path(__file__).parent / TEXTS / f"{name}.md").read_text(encoding="utf-8")
            (part / TEXTS / f"{name}.md").write_text(text, encoding="utf-8")
        study = Study(
            folder,
            title,
            choice.seed,
            tuple(choice.methods),
            tuple(cases),
            practice,
            choice.manifest.sha256,
            hashes=gallery.hashes,
        )
        write_study(study, part)
    return study


def check_target(folder: Path, overwrite: bool) -> None:
    """Refuses a place that holds anything else than an old study without answers."""
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise InputError(f"{shown(folder.absolute().parent)}: no such folder; create it first")
        return
    if (folder / ANSWERS).exists():
        raise InputError(
            f"{shown(folder)}: holds people's answers, which are never replaced; choose another name"
        )
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / FILE_NAME).is_file()):
        raise InputError(f"{shown(folder)}: is there already and is no study; choose another name")
    if any(folder.iterdir()) and not overwrite:
        raise InputError(
            f"{shown(folder)}: exists already and is kept; choose another name or add --overwrite"
        )


class _Gallery:
    """The pictures of a study: each saved once, pixels only, under a name that a hash gives it.

    The name of an output comes from the bytes of the run's file, with the record inside, which no participant
    has: from what people see, nobody can compute whose it is.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.hashes: dict[str, str] = {}

    def keep(self, image: Image.Image, *facts: str) -> str:
        id = hashlib.sha256("\n".join([str(self.seed), *facts]).encode()).hexdigest()[:16]
        file = f"{id}.png"
        if file not in self.hashes:
            pixels = Image.fromarray(np.asarray(image.convert("RGB")))  # no text, no EXIF, no profile
            pixels.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
            save_png(pixels, self.folder / file)
            self.hashes[file] = sha256(self.folder / file)
        return file


def _case(
    name: str, sample: BenchSample, pictures: Mapping[str, tuple[Path, str]], gallery: _Gallery
) -> StudyCase:
    inputs = read_job(sample.job())
    hashes = [file.sha256 for file in sample.files()]
    regions = tuple(
        StudyRegion(region.name, region_colour(i), gallery.keep(style.picture, "style", region.style.sha256))
        for i, (region, style) in enumerate(zip(sample.regions, inputs.styles, strict=True))
    )
    outputs = []
    for label, (path, variant) in pictures.items():
        file = gallery.keep(read_rgb(path, "output"), "output", label, sample.id, sha256(path))
        outputs.append(RatedPicture(file.removesuffix(".png"), label, variant))
    return StudyCase(
        name,
        sample.n,
        sample.id,
        gallery.keep(inputs.photo, "photo", sample.content.sha256),
        gallery.keep(overlay(inputs.photo, inputs.masks.numpy()), "regions", *hashes),
        regions,
        tuple(outputs),
    )


def _practice_case(choice: Choice, gallery: _Gallery) -> StudyCase:
    if choice.practice is not None:
        sample, label = choice.practice
        run = choice.methods[label][sample.n]
        return _case("practice", sample, {label: (run.folder / f"{sample.id}.png", run.name)}, gallery)
    sample = choice.cases[0]
    choice.notes.append(
        "no sample is left for practice: the practice page shows the first case's photo as it is"
    )
    return _case("practice", sample, {UNTOUCHED: (sample.content.path, UNTOUCHED)}, gallery)
