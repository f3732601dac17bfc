"""mast bench: the paper's data set (make) and its tables (report); run and sweep stand in bench_run.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..files import check_outputs
from ..job import InputError
from .bench_run import LISTED, run, sweep
from .console import counting, loading, note, out, say, show, visible
from .evaluate import ComparedSize, Device, FeatureCache, measurer
from .options import OUTPUT, AsJson, MetricOptions, Overwrite, Quiet, flag, group, option, with_options

if TYPE_CHECKING:
    from ..bench.data.manifest import Manifest
    from ..regions.sources import ObjectSource

DATA, OBJECTS, SHOWN = "Data", "Objects of the photos (one of these)", "Tables"
BACKGROUND, SEGMENT = "background", "segment"  # what --fill may be

bench = group("The paper's benchmark: make the data set, run methods on it, print the tables.")


@bench.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the benchmark, a new one.")],
    contents: Annotated[Path, option(DATA, "FOLDER", "A folder of photos.")],
    styles: Annotated[Path, option(DATA, "FOLDER", "A folder of paintings; folders in it are searched too.")],
    annotations: Annotated[Path | None, option(OBJECTS, "FILE", "COCO's instances_*.json.")] = None,
    masks: Annotated[
        Path | None, option(OBJECTS, "FOLDER", "Masks, PHOTO-REGION.png for the photo PHOTO.*")
    ] = None,
    labels: Annotated[
        Path | None, option(OBJECTS, "FOLDER", "Label maps PHOTO.png, as BSDS has them.")
    ] = None,
    segments: Annotated[
        Path | None,
        option(
            OBJECTS,
            "FOLDER",
            "With --annotations: label maps PHOTO.png that decide whose the unannotated pixels are.",
        ),
    ] = None,
    fill: Annotated[
        str,
        option(
            OBJECTS,
            "HOW",
            "With --annotations: the unannotated pixels are background, or go by what a segmenter finds: "
            "segment (mobile-sam) or FILE.py:CLASS.",
        ),
    ] = BACKGROUND,
    n: Annotated[str, option(DATA, "NUMBERS", "Numbers of regions, with commas.", names=("-n",))] = "2,3,4,5",
    seed: Annotated[int, option(DATA, "N", "Decides which styles form a tuple.")] = 0,
    max_contents: Annotated[int | None, option(DATA, "N", "Only the first photos by name.", min=1)] = None,
    max_styles: Annotated[int | None, option(DATA, "N", "Only so many styles, by the seed.", min=2)] = None,
    square: Annotated[
        bool,
        flag(
            "--square",
            help="Cut photos and their objects down to the centre square, the paper's format, before regions "
            "are chosen.",
            panel=DATA,
        ),
    ] = False,
    skip_small: Annotated[
        bool, flag("--skip-small", help="Leave a photo out of an N it has too few objects for.", panel=DATA)
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """N regions a photo (the N-1 largest objects and the background), disjoint N-tuples of styles, every
    tuple with every photo.
    """
    with loading("photos and paintings", quiet):
        from ..bench.data.make import make as build
        from ..regions.sources import CocoSource, need_folder, pictures
        from .finding import load_segmenter

        photos = pictures(need_folder(contents, "photos"))[:max_contents]
        paintings = pictures(need_folder(styles, "styles"), deep=True)
        for found, where in ((photos, contents), (paintings, styles)):
            if not found:
                raise InputError(f"{where}: no pictures in it")
        _check_fill(fill, annotations, segments)
        source = _source(annotations, masks, labels, segments, [photo.stem for photo in photos])
        numbers = _numbers(n)
    if isinstance(source, CocoSource) and fill != BACKGROUND:
        source.fill_by(load_segmenter("mobile-sam" if fill == SEGMENT else fill, "propose", quiet))
    with counting(quiet) as on_count:
        manifest = build(
            folder,
            photos,
            paintings,
            source,
            numbers,
            seed=seed,
            max_styles=max_styles,
            square=square,
            skip_small=skip_small,
            overwrite=overwrite,
            on_count=on_count,
        )
    for text in manifest.header.notes:
        note(text, "yellow")
    out.print(_counts(manifest))
    out.print(Text(visible(str(manifest.path))), soft_wrap=True)
    if not quiet:
        say(f"look at the regions: {manifest.path.with_name('masks.png')}; then: mast bench run")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"-n {text}: write numbers of regions with commas, as in -n 2,3") from error


def _source(
    annotations: Path | None, masks: Path | None, labels: Path | None, segments: Path | None, stems: list[str]
) -> ObjectSource:
    from ..regions.sources import CocoSource, LabelSource, MaskSource

    if sum(given is not None for given in (annotations, masks, labels)) != 1:
        raise InputError("give one of --annotations COCO.json, --masks FOLDER, --labels FOLDER")
    if segments is not None and annotations is None:
        raise InputError("--segments fills what COCO's annotations leave; give it with --annotations")
    if annotations is not None:
        return CocoSource(annotations, segments)
    return MaskSource(masks, stems) if masks is not None else LabelSource(labels)  # type: ignore[arg-type]


def _check_fill(fill: str, annotations: Path | None, segments: Path | None) -> None:
    """Refuses a way of filling that cannot be, before anything is fetched."""
    if fill == BACKGROUND:
        return
    if annotations is None:
        raise InputError(f"--fill {fill} fills what COCO's annotations leave; give it with --annotations")
    if segments is not None:
        raise InputError(f"--fill {fill} and --segments {segments} decide the same; leave one of them out")
    if fill != SEGMENT and ".py:" not in fill:
        raise InputError(
            f"--fill {fill}: choose {BACKGROUND}, {SEGMENT}, or FILE.py:CLASS for one of your own"
        )


def _counts(manifest: Manifest) -> Table:
    table = Table("N", "photos", "tuples of styles", "samples", box=None)
    for n, count in manifest.counts().items():
        samples = manifest.of(n)
        photos = len({sample.content.path for sample in samples})
        tuples = len({sample.tuple_index for sample in samples})
        table.add_row(str(n), str(photos), str(tuples), str(count))
    table.add_row("all", "", "", str(len(manifest.samples)), style="bold")
    return table


bench.command()(run)


@bench.command()
@with_options
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that mast bench run wrote.")],
    manifest: Annotated[
        Path | None, option(SHOWN, "FILE", "The manifest, where it is not at its old place any more.")
    ] = None,
    variant: Annotated[
        list[str], option(SHOWN, "NAME", "Only this variant; may be given more than once.")
    ] = [],  # noqa: B006
    everything: Annotated[
        bool,
        flag("--all", help="All samples of each variant, not only those that all have.", panel=SHOWN),
    ] = False,
    *,
    metrics: MetricOptions,
    size: ComparedSize = None,
    device: Device = "auto",
    cache: FeatureCache = True,
    stem: Annotated[
        Path | None,
        option(OUTPUT, "STEM", "Write STEM.md, .tex, .csv, .json and .png.", "DIR/report", names=("--out",)),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The paper's tables: comparison, ablation, compositing, R-FID beside the other metrics."""
    with loading("the networks", quiet):
        from ..bench.data.manifest import verify
        from ..bench.report.publish import SUFFIXES, check_stem, save
        from ..bench.report.report import build
        from ..bench.report.results import read_runs
        from ..weights.registry import local

        made_from, runs = read_runs(folder, manifest, variant)
        target = check_stem(stem or folder / "report", overwrite or stem is None)
        written = [target.with_name(target.name + suffix) for suffix in SUFFIXES]
        check_outputs(written, [file.path for sample in made_from.samples for file in sample.files()], True)
        # Whatever is bad comes back by name, and ends the report once all is known.
        more: dict[str, Any] = {"size": size, "cache": cache, "skip_bad": True}
        if metrics.inception is None and metrics.inception_weights is None:
            papers = any(run.papers_protocol for run in runs) and local("art-inception") is not None
            more |= {"inception": "artfid"} if papers else {}
        options = metrics.options(device, **more)
    with counting(quiet) as on_count:
        verify(made_from, on_count)
    found = build(made_from, runs, measurer(options, quiet), everything)
    written = save(found, target)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    show(found.tables, found.notes)
    for name, failed in found.failures.items():
        for sample, reason in list(failed.items())[:LISTED]:
            say(("failed:", "red"), f" {name}, {sample}: {reason}")
        if len(failed) > LISTED:
            say(("failed:", "red"), f" {name}: {len(failed) - LISTED} more, see its failed.jsonl")
    if not quiet:
        say(f"written: {', '.join(str(path) for path in written)}")


bench.command()(sweep)
