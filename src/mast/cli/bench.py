"""mast bench: the paper's data set and tables (make, report); `run` and `sweep` stand in bench_run.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..job import InputError
from .app import app, say
from .evaluate import counting
from .measuring import measurer
from .tools import out

if TYPE_CHECKING:
    from ..bench.data.manifest import Manifest
    from ..bench.report.report import BenchReport
    from ..regions.sources import ObjectSource

LISTED = 10  # failures of a variant that are spelled out

bench_app = typer.Typer(
    no_args_is_help=True,
    help="The paper's benchmark: make the data set, run methods on it, print the tables.",
)
app.add_typer(bench_app, name="bench")


@bench_app.command("make")
def make_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the benchmark, a new one.")],
    contents: Annotated[Path, typer.Option(help="A folder of photos.")],
    styles: Annotated[Path, typer.Option(help="A folder of paintings; folders in it are searched too.")],
    annotations: Annotated[
        Path | None, typer.Option(help="COCO's instances_*.json: objects of the photos.")
    ] = None,
    masks: Annotated[
        Path | None, typer.Option(help="Instead: a folder of masks, PHOTO-REGION.png for the photo PHOTO.*")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Instead: a folder of label maps PHOTO.png, as BSDS has them.")
    ] = None,
    segments: Annotated[
        Path | None,
        typer.Option(
            help="With --annotations: label maps PHOTO.png that decide whose the unannotated pixels are; "
            "without them they are background."
        ),
    ] = None,
    n: Annotated[str, typer.Option("-n", help="Numbers of regions, with commas.")] = "2,3,4,5",
    seed: Annotated[int, typer.Option(help="Decides which styles form a tuple.")] = 0,
    max_contents: Annotated[int | None, typer.Option(min=1, help="Only the first photos by name.")] = None,
    max_styles: Annotated[int | None, typer.Option(min=2, help="Only so many styles, by the seed.")] = None,
    skip_small: Annotated[
        bool, typer.Option("--skip-small", help="Leave a photo out of an N it has too few objects for.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a benchmark that is there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
) -> None:
    """N regions a photo (the N-1 largest objects and the background), disjoint N-tuples of styles, every
    tuple with every photo.
    """
    from ..bench.data.make import make
    from ..regions.sources import need_folder, pictures

    photos = pictures(need_folder(contents, "photos"))[:max_contents]
    paintings = pictures(need_folder(styles, "styles"), deep=True)
    for found, where in ((photos, contents), (paintings, styles)):
        if not found:
            raise InputError(f"{where}: no pictures in it")
    source = _source(annotations, masks, labels, segments, [photo.stem for photo in photos])
    with counting(quiet) as on_count:
        manifest = make(
            folder,
            photos,
            paintings,
            source,
            _numbers(n),
            seed=seed,
            max_styles=max_styles,
            skip_small=skip_small,
            overwrite=overwrite,
            on_count=on_count,
        )
    for note in manifest.header.notes:
        say(f"[yellow]note:[/] {escape(note)}")
    out.print(_counts(manifest))
    out.print(escape(str(manifest.path)), soft_wrap=True)
    if not quiet:
        say(f"look at the regions: {escape(str(manifest.path.with_name('masks.png')))}; then: mast bench run")


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


def _counts(manifest: Manifest) -> Table:
    table = Table("N", "photos", "tuples of styles", "samples", box=None)
    for n, count in manifest.counts().items():
        samples = manifest.of(n)
        photos = len({sample.content.path for sample in samples})
        tuples = len({sample.tuple_index for sample in samples})
        table.add_row(str(n), str(photos), str(tuples), str(count))
    table.add_row("all", "", "", str(len(manifest.samples)), style="bold")
    return table


@bench_app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that mast bench run wrote.")],
    manifest: Annotated[
        Path | None, typer.Option(help="The manifest, where it is not at its old place any more.")
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="Only this variant; may be given more than once.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All samples of each variant, not only those that all have.")
    ] = False,
    inception: Annotated[
        str, typer.Option(help="Which Inception: fid, pytorch-fid, or artfid (the paper's scale).")
    ] = "fid",
    inception_weights: Annotated[Path | None, typer.Option(help="Its file, e.g. art_inception.pth.")] = None,
    lpips: Annotated[str, typer.Option(help="The network of LPIPS: alex or vgg.")] = "alex",
    lpips_weights: Annotated[Path | None, typer.Option(help="Its file.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Longer side at which results and photos are compared.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Draws of R-FID.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of R-FID's draws.")] = 0,
    batch: Annotated[int, typer.Option(help="Pictures at a time.")] = 8,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep and use features on disk.")] = True,
    stem: Annotated[
        Path | None,
        typer.Option("--out", metavar="STEM", help="Write STEM.md, .tex, .csv, .json, .png; DIR/report.*"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --out: replace what is there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """The paper's tables: comparison, ablation, compositing, R-FID beside the other metrics."""
    from ..bench.data.manifest import verify
    from ..bench.report.publish import check_stem, save
    from ..bench.report.report import build
    from ..bench.report.results import read_runs

    made_from, runs = read_runs(folder, manifest, variant or ())
    target = check_stem(stem or folder / "report", overwrite or stem is None)
    from ..backbone.device import resolve_device
    from ..metrics import Options

    options = Options(
        inception=inception,
        inception_weights=inception_weights,
        lpips=lpips,
        lpips_weights=lpips_weights,
        size=size,
        repeats=repeats,
        seed=seed,
        batch=batch,
        device=resolve_device(device),
        skip_bad=True,  # whatever is bad comes back by name, and ends the report once all is known
        cache=cache,
    )

    with counting(quiet) as on_count:
        verify(made_from, on_count)
    report = build(made_from, runs, measurer(options, quiet), everything)
    written = save(report, target)
    if as_json:
        print(json.dumps(report.to_dict()))
        return
    _show(report)
    if not quiet:
        say(f"written: {escape(', '.join(str(path) for path in written))}")


def _show(report: BenchReport) -> None:
    from ..tables import terminal

    for table in report.tables:
        for piece in terminal(table, out.width):
            out.print(piece)
        out.print(f"[dim]{escape(table.caption)}[/]\n", soft_wrap=True)
    for note in report.notes:
        say(f"[yellow]note:[/] {escape(note)}")
    for name, failed in report.failures.items():
        for sample, reason in list(failed.items())[:LISTED]:
            say(f"[red]failed:[/] {escape(f'{name}, {sample}: {reason}')}")
        if len(failed) > LISTED:
            say(f"[red]failed:[/] {escape(name)}: {len(failed) - LISTED} more, see its failed.jsonl")
