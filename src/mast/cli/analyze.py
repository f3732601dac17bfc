"""mast analyze: the paper's analyses on any job. Each writes OUT.json, OUT.md and OUT.png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..images import read_rgb
from ..job import InputError
from .app import app, progress, say
from .jobs import JobOptions
from .requests import with_request

if TYPE_CHECKING:
    from ..analysis.observe import Watch
    from ..analysis.report import AnalysisReport
    from ..backbone.backbone import Backbone
    from ..job import Settings
    from ..methods import Mast

analyze_app = typer.Typer(
    no_args_is_help=True, help="The paper's analyses: attention mass, entropy, sharpness, filter."
)
app.add_typer(analyze_app, name="analyze")


def output(name: str) -> Any:
    return typer.Option("-o", "--output", help=f"Writes OUT.json, OUT.md and OUT.png ({name} if not given).")


@analyze_app.command()
@with_request
def allocation(
    request: JobOptions,
    shared_run: Annotated[
        bool, typer.Option("--shared-run", help="Also run shared attention by itself, on its own trajectory.")
    ] = False,
    name: Annotated[Path, output("allocation")] = Path("allocation"),
) -> None:
    """Attention mass on style, content and other styles, before and after LAMA (Table 4)."""
    from ..analysis import allocation as part
    from ..analysis import plots
    from ..analysis.report import AnalysisReport
    from ..methods import SharedAttention

    outputs = _begin(request, name)
    backbone, settings = request.load()
    method = _method(request, backbone)
    watchers = [part.Allocation()]
    _watch(request, backbone, settings, method, watchers[0])
    notes = [
        "shared and LAMA are read off the same logits of one run of MAST, as in the paper: before and after "
        "the bias, before STS",
        f"style, content and leakage: queries with M_i >= {part.INSIDE} and the others' sum <= "
        f"{part.OUTSIDE}; TV and JSD (nats): all queries; means over queries, then over heads, layers, "
        "steps and pictures",
        "Target is measured over the same interiors, whose cells may hold up to 0.01 of another mask; the "
        f"furthest any mass is from its target under LAMA: {max(watchers[0].furthest.values()):.1e}",
    ]
    if shared_run:
        watchers.append(part.Allocation(("shared-run",)))
        shared = SharedAttention(lam=method.lam, pi=method.pi)
        _watch(request, backbone, settings, shared, watchers[1])
        notes.append("own run: shared attention denoising by itself, so its queries are its own")
    if any(watchers[0].tally.mean("lama.style", n=n) is None for n in watchers[0].tally.values("n")):
        notes.append(
            "some pictures have no interior query: raise --size, or the regions' strength is below 1"
        )
    data = {**_record(request, backbone, settings, method), **part.data(watchers, backbone.sites)}
    label = backbone.name
    report = AnalysisReport(
        "Partition masses before and after LAMA",
        part.HEADER,
        part.table(watchers, label),
        data,
        notes,
    )
    _finish(request, report, outputs, plots.allocation(watchers, label, method.pi))


@analyze_app.command()
@with_request
def entropy(request: JobOptions, name: Annotated[Path, output("entropy")] = Path("entropy")) -> None:
    """Entropy per head: the content's attention, joint attention before and after STS (App. A.5)."""
    from ..analysis import plots, sharpness
    from ..analysis.report import AnalysisReport

    outputs = _begin(request, name)
    backbone, settings = request.load()
    method, watcher = _method(request, backbone), sharpness.Entropy()
    _watch(request, backbone, settings, method, watcher)
    counts = ", ".join(f"{len(seen)} with N={n}" for n, seen in sorted(watcher.tally.samples.items()))
    notes = [
        f"{backbone.name}, {counts}; the paper's figure has N=4 on SD 1.4 and gives no numbers",
        "nats; means over queries, layers, steps and pictures. recovered: the part of the gap between joint "
        "and content entropy that STS closes",
    ]
    data = {**_record(request, backbone, settings, method), **watcher.data(backbone.sites)}
    report = AnalysisReport(
        "Attention entropy by head", sharpness.ENTROPY_HEADER, watcher.table(), data, notes
    )
    _finish(request, report, outputs, plots.entropy(watcher, f"{backbone.name}, pictures: {counts}"))


@analyze_app.command()
@with_request
def sts(request: JobOptions, name: Annotated[Path, output("sts")] = Path("sts")) -> None:
    """How far STS moves masses from LAMA's targets: D_mass and rho_min by N (Table 8)."""
    from ..analysis import plots, sharpness
    from ..analysis.report import AnalysisReport

    outputs = _begin(request, name)
    backbone, settings = request.load()
    method, watcher = _method(request, backbone), sharpness.Drift()
    _watch(request, backbone, settings, method, watcher)
    notes = [
        f"{backbone.name} is another model than the paper's SD 1.4: compare the pattern, not the digits",
        "D_mass: Eq. 40, mean total variation from the targets over all queries, heads, layers, steps and "
        "pictures; rho_min: Eq. 41, the lowest mean correlation of a style's masses with its targets",
    ]
    data = {**_record(request, backbone, settings, method), **watcher.data(backbone.sites)}
    rows = watcher.table(backbone.name)
    report = AnalysisReport("Effect of STS on LAMA's masses", sharpness.DRIFT_HEADER, rows, data, notes)
    _finish(request, report, outputs, plots.drift(watcher, backbone.name))


@analyze_app.command()
@with_request
def calibrate(
    request: JobOptions,
    write_defaults: Annotated[
        bool,
        typer.Option("--write-defaults", help="Put the coefficients into the model folder's defaults.json."),
    ] = False,
    name: Annotated[Path, output("calibrate")] = Path("calibrate"),
) -> None:
    """Fits tau to a model: 120 factors in [0.8, 5] per head, layer and step (App. A.4). Also OUT.csv."""
    from ..analysis import calibration, plots
    from ..analysis.report import AnalysisReport

    outputs = _begin(request, name, (".json", ".md", ".png", ".csv"))
    defaults = calibration.check_model_folder(request.model) if write_defaults else None
    backbone, settings = request.load()
    method, gaps = calibration.starting_method(backbone, **request.options), calibration.Gaps()
    _watch(request, backbone, settings, method, gaps)
    found = calibration.fit(gaps.pairs)
    notes = [
        f"{found.observations} observations on {backbone.name} from {len(request.jobs)} pictures "
        "(paper: about 480,000 from 200 on SD 1.4); use pictures that are not evaluated later",
        f"--tau {found.option}",
    ]
    data = {**_record(request, backbone, settings, method), **found.data()}
    report = AnalysisReport("tau from the sharpness gap", calibration.HEADER, found.table(), data, notes)
    gaps.save(outputs[".csv"])
    _finish(request, report, outputs, plots.calibration(found, backbone.name))
    if defaults is not None:
        calibration.write_defaults(defaults, found)
        say(f"[bold]{escape(str(defaults))}[/] now holds these coefficients")


@analyze_app.command("filter")
def filter_command(
    r: Annotated[
        str, typer.Option(help="Frequency scales, with commas between them.")
    ] = "0.1,0.3,0.5,0.7,0.9",
    name: Annotated[Path, output("filter")] = Path("filter"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """T(r): how much DDI's detail filter lets through, at 32x32 and 64x64 (App. A.6). Needs no model."""
    from ..analysis import plots, transmission
    from ..analysis.report import AnalysisReport, check_outputs, figures

    scales = transmission.parse_scales(r)
    outputs = check_outputs(name, overwrite)
    figures()
    report = AnalysisReport(
        "Transmission of DDI's filter",
        transmission.header(),
        transmission.table(scales),
        transmission.data(scales),
        ["T(r) = mean M_r^2 / mean M_0.1^2 over all frequency bins; a property of the filter alone"],
    )
    report.save(outputs, plots.filter_transmission(scales, transmission.GRIDS))
    _show(report, outputs, quiet)


@analyze_app.command()
@with_request
def maps(
    request: JobOptions,
    layers: Annotated[str, typer.Option(help="Controlled layers, from 1, with commas between them.")] = "1,6",
    shown: Annotated[int, typer.Option(min=1, help="So many steps, from the first to the last.")] = 3,
    name: Annotated[Path, output("maps")] = Path("maps"),
) -> None:
    """Maps of attention mass over the photo, per style, layer and step: shared, LAMA, LAMA + STS."""
    from ..analysis import maps as part
    from ..analysis.report import AnalysisReport, check_outputs

    if len(request.jobs) != 1:
        raise InputError(f"maps are drawn for one picture; {len(request.jobs)} were given, choose one")
    outputs = check_outputs(name, request.overwrite, inputs=request.inputs)
    request.check()
    backbone, settings = request.load()
    sites = _layers(layers, len(backbone.sites))
    method = _method(request, backbone)
    watcher = part.Maps(sites, part.spread(settings.steps - 1, shown))
    (result,) = _watch(request, backbone, settings, method, watcher)
    job = request.jobs[0].job
    styles = [
        (read_rgb(region.style), f"{i + 1} {Path(str(region.style)).stem}")
        for i, region in enumerate(job.regions)
    ]
    rows = watcher.rows([*[style for _, style in styles], "content"], backbone.sites)
    title = f"Attention mass, {request.jobs[0].name}, {backbone.name}"
    data = {**_record(request, backbone, settings, method), "maps": rows}
    notes = ["colour: share of a place's attention, none to all; means over heads; shared before LAMA's bias"]
    picture = watcher.sheet(read_rgb(job.content), styles, result.image, title)
    _finish(request, AnalysisReport(title, part.HEADER, part.table(rows), data, notes), outputs, picture)


# ------------------------------------------------------------------------------------------------ shared


def _begin(
    request: JobOptions, name: Path, suffixes: tuple[str, ...] = (".json", ".md", ".png")
) -> dict[str, Path]:
    """Everything that can be refused before a model is loaded."""
    from ..analysis.report import check_outputs, figures

    outputs = check_outputs(name, request.overwrite, suffixes, request.inputs)
    figures()
    request.check()
    return outputs


def _method(request: JobOptions, backbone: Backbone) -> Mast:
    from ..methods import Mast
    from ..pipeline.stylize import default_method

    method = default_method(backbone, "mast", **request.options)
    assert isinstance(method, Mast)
    return method


def _watch(
    request: JobOptions, backbone: Backbone, settings: Settings, method: Mast, watch: Watch
) -> list[Any]:
    """Runs every job under the onlooker's eyes, with a bar for each."""
    from ..analysis.observe import observe

    results: list[Any] = []
    for i, (name, job) in enumerate(request.jobs):
        request.announce(name, i)
        with progress(request.quiet) as bar:
            results += observe([job], backbone, settings, method, watch, bar, first=i)
    return results


def _record(request: JobOptions, backbone: Backbone, settings: Settings, method: Mast) -> dict[str, Any]:
    """What was run, for the JSON."""
    from ..job import as_dict
    from ..pipeline.provenance import mast_version

    return {
        "mast": mast_version(),
        "model": {"name": backbone.name, "fingerprint": backbone.fingerprint},
        "settings": as_dict(settings),
        "method": method.options(),
        "pictures": [name for name, _ in request.jobs],
    }


def _finish(request: JobOptions, report: AnalysisReport, outputs: dict[str, Path], figure: Any) -> None:
    report.save(outputs, figure)
    _show(report, outputs, request.quiet)


def _show(report: AnalysisReport, outputs: dict[str, Path], quiet: bool) -> None:
    from .tools import out

    table = Table(*report.header, box=None, title=report.title, title_justify="left")
    for row in report.rows:
        table.add_row(*map(escape, row))
    out.print(table)
    for note in [] if quiet else report.notes:
        say(f"[dim]note:[/] {escape(note)}")
    if not quiet:
        say("  ".join(f"[bold]{escape(str(path))}[/]" for path in outputs.values()))


def _layers(text: str, count: int) -> list[int]:
    """ "1,6" -> [0, 5]."""
    numbers = text.split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= count for part in numbers):
        raise InputError(f"--layers {text}: give numbers from 1 to {count} with commas between them")
    return sorted({int(part) - 1 for part in numbers})
