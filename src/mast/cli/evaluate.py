"""mast eval: the paper's metrics over a folder of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import check_output, check_outputs
from ..job import InputError
from .console import counting, download_bar, loading, say, show
from .options import (
    MACHINE,
    NETWORKS,
    OUTPUT,
    AsJson,
    MetricOptions,
    Overwrite,
    Quiet,
    flag,
    option,
    with_options,
)

if TYPE_CHECKING:
    from ..bench.report.scores import Measure
    from ..metrics import Collection, Evaluation, Networks, Options

FOLDERS = "Results without records"

ComparedSize = Annotated[
    int | None,
    option(NETWORKS, "PIXELS", "Longer side at which results and photos are compared.", "the results' own"),
]
FeatureCache = Annotated[
    bool, flag("--cache/--no-cache", help="Keep and use features on disk.", panel=MACHINE)
]
Device = Annotated[str, option(MACHINE, "NAME", "auto, cpu, cuda or mps.")]


@with_options
def evaluate(
    results: Annotated[
        Path | None, typer.Argument(help="A folder of results; their records name photos, styles and masks.")
    ] = None,
    stylized: Annotated[Path | None, option(FOLDERS, "FOLDER", "The results.")] = None,
    content: Annotated[
        Path | None, option(FOLDERS, "FOLDER", "Their photos, NAME.* for the result NAME.*")
    ] = None,
    styles: Annotated[
        Path | None, option(FOLDERS, "FOLDER", "Their styles: NAME.*, NAME-*.*, NAME/*; or a set of styles.")
    ] = None,
    masks: Annotated[Path | None, option(FOLDERS, "FOLDER", "Their masks, named like the styles.")] = None,
    *,
    metrics: MetricOptions,
    cfsd: Annotated[
        str | None, option(NETWORKS, "NAME", "Also CFSD, seconds a picture: vgg16, or vgg19 as published.")
    ] = None,
    cfsd_weights: Annotated[
        Path | None, option(NETWORKS, "FILE", "Its file, e.g. vgg19-dcbb9e9d.pth.", "fetched")
    ] = None,
    size: ComparedSize = None,
    skip_bad: Annotated[
        bool, flag("--skip-bad", help="Leave missing and damaged files out.", panel=NETWORKS)
    ] = False,
    device: Device = "auto",
    cache: FeatureCache = True,
    output: Annotated[
        Path | None,
        option(
            OUTPUT, "NAME", "Write NAME.json, and NAME.csv with a row a result.", names=("-o", "--output")
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """FID, LPIPS, ArtFID, R-FID, M-FID and more of results, with n beside each number."""
    if output is not None:
        output = check_output(output, overwrite, (".json", ".csv"))
        other = output.with_suffix(".csv" if output.suffix == ".json" else ".json")
        check_output(other, overwrite, (".json", ".csv"))
    with loading("the networks", quiet):
        found = _found(results, stylized, content, styles, masks)
        if output is not None:
            records = [sample.stylized.with_suffix(".json") for sample in found.samples]
            check_outputs([output, other], records, overwrite)
        more = {"cfsd": cfsd, "cfsd_weights": cfsd_weights, "size": size, "skip_bad": skip_bad}
        options = metrics.options(device, cache=cache, **more)
    report = measurer(options, quiet)("", found)
    if output is not None:
        report.save(output)
    if as_json:
        print(json.dumps(report.to_dict()))
        return
    show([report.table()], report.notes)
    for reason in dict.fromkeys(report.excluded.values()):
        say(("left out:", "yellow"), f" {reason}")


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


def measurer(options: Options, quiet: bool) -> Measure:
    """`metrics.evaluate` with these options, as the benchmark's tables call it: a line and a bar for each.

    The networks are loaded with the first collection, fetched where they are not here, and serve all.
    """
    from ..metrics import evaluate, load_networks

    loaded: Networks | None = None

    def measure(what: str, found: Collection) -> Evaluation:
        nonlocal loaded
        if what and not quiet:
            say((f"measuring {what}: {len(found.samples)} results", "dim"))
        with download_bar(quiet) as on_bytes, counting(quiet) as on_count:
            loaded = loaded or load_networks(options, on_bytes)
            return evaluate(found, options, on_count, networks=loaded)

    return measure
