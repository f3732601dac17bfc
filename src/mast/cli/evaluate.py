"""mast eval: the paper's metrics over a folder of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..files import check_output
from ..job import InputError
from .app import app, console, say
from .tools import out
from .weights import download_bar

if TYPE_CHECKING:
    from ..metrics import Collection, Evaluation
    from ..metrics.store import OnCount


@app.command("eval")
def evaluate_command(
    results: Annotated[
        Path | None, typer.Argument(help="A folder of results; their records name photos, styles and masks.")
    ] = None,
    stylized: Annotated[Path | None, typer.Option(help="A folder of results without records.")] = None,
    content: Annotated[Path | None, typer.Option(help="Their photos, NAME.* for the result NAME.*")] = None,
    styles: Annotated[
        Path | None, typer.Option(help="Their styles: NAME.*, NAME-*.*, NAME/*; or a set of styles.")
    ] = None,
    masks: Annotated[Path | None, typer.Option(help="Their masks, named like the styles.")] = None,
    inception: Annotated[
        str, typer.Option(help="Which Inception: fid, pytorch-fid, or artfid (the paper's scale).")
    ] = "fid",
    inception_weights: Annotated[Path | None, typer.Option(help="Its file, e.g. art_inception.pth.")] = None,
    lpips: Annotated[str, typer.Option(help="The network of LPIPS: alex or vgg.")] = "alex",
    lpips_weights: Annotated[Path | None, typer.Option(help="Its file.")] = None,
    cfsd: Annotated[
        str | None, typer.Option(help="Also CFSD, seconds a picture: vgg16, or vgg19 as published.")
    ] = None,
    cfsd_weights: Annotated[Path | None, typer.Option(help="Its file, e.g. vgg19-dcbb9e9d.pth.")] = None,
    size: Annotated[
        int | None,
        typer.Option(help="Longer side at which results and photos are compared; theirs if not given."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Draws of R-FID.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of R-FID's draws.")] = 0,
    batch: Annotated[int, typer.Option(help="Pictures at a time.")] = 8,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave missing and damaged files out.")
    ] = False,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep and use features on disk.")] = True,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write NAME.json, and NAME.csv with a row per result."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """FID, LPIPS, ArtFID, R-FID and M-FID of results, with n beside each number."""
    if output is not None:
        output = check_output(output, overwrite, (".json", ".csv"))
        check_output(
            output.with_suffix(".csv" if output.suffix == ".json" else ".json"), overwrite, (".json", ".csv")
        )
    from ..backbone.device import resolve_device
    from ..metrics import Options, evaluate

    found = _found(results, stylized, content, styles, masks)
    options = Options(
        inception=inception,
        inception_weights=inception_weights,
        lpips=lpips,
        lpips_weights=lpips_weights,
        cfsd=cfsd,
        cfsd_weights=cfsd_weights,
        size=size,
        repeats=repeats,
        seed=seed,
        batch=batch,
        device=resolve_device(device),
        skip_bad=skip_bad,
        cache=cache,
    )
    with download_bar(quiet) as on_bytes, counting(quiet) as on_count:
        report = evaluate(found, options, on_count, on_bytes)
    if output is not None:
        report.save(output)
    if as_json:
        print(json.dumps(report.to_dict()))
        return
    out.print(_table(report))
    for note in report.notes:
        say(f"[yellow]note:[/] {note}")
    for reason in dict.fromkeys(report.excluded.values()):
        say(f"[yellow]left out:[/] {reason}")


def _found(
    results: Path | None, stylized: Path | None, content: Path | None, styles: Path | None, masks: Path | None
) -> Collection:
    from ..metrics import from_folders, from_results

    if results is not None:
        if any((stylized, content, styles, masks)):
            raise InputError(
                "give either a folder of results with records, or --stylized and its companions, not both"
            )
        return from_results(results)
    if stylized is None or content is None:
        raise InputError(
            "give a folder of results, or --stylized DIR --content DIR (and --styles DIR --masks DIR)"
        )
    return from_folders(stylized, content, styles, masks)


@contextmanager
def counting(quiet: bool) -> Iterator[OnCount]:
    """A bar per stage: pictures, or draws, done and to do."""
    if quiet or not console.is_terminal:
        yield lambda stage, done, total: None
        return
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def feed(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield feed


def _table(report: Evaluation) -> Table:
    inception = report.networks["inception"].split()[0]
    lpips = f"LPIPS ({report.networks['lpips'].split()[0]})"
    regions = f"{report.n_regions} regions, {report.n_styles} styles"
    if report.skipped_regions:
        regions += f", {report.skipped_regions} regions without a cell"
    draws = f", {report.repeats} draws ± {report.rfid_std:.3f}" if report.rfid_std is not None else ""
    results = f"{report.n} results"
    rows = [
        (
            "ArtFID",
            report.artfid,
            f"{results}, {report.n_styles} styles",
            f"(1 + LPIPS)(1 + FID), Inception {inception}",
        ),
        ("FID", report.fid, f"{results}, {report.n_styles} styles", f"Inception {inception}, to the styles"),
        ("R-FID", report.rfid, regions, f"Inception {inception}{draws}, seed {report.seed}"),
        ("M-FID", report.mfid, regions, f"Inception {inception}"),
        ("LPIPS", report.lpips, results, f"{lpips.removeprefix('LPIPS ')}, to the photos"),
        ("SSIM", report.ssim, results, "to the photos"),
    ]
    if report.cfsd is not None:
        rows.append(("CFSD", report.cfsd, results, f"({report.networks['cfsd'].split()[0]}), to the photos"))
    table = Table("metric", "value", "n", "measured by", box=None)
    for name, value, n, how in rows:
        table.add_row(name, "-" if value is None else f"{value:.4f}", n, how)
    return table
