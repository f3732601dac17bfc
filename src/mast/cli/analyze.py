"""mast analyze: the paper's analyses on any job. Each writes OUT.json, OUT.md and OUT.png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..job import InputError, Result
from .console import loading, note, progress, say, show
from .given_jobs import PaintOptions
from .options import OUTPUT, Overwrite, Quiet, flag, group, option, with_options

if TYPE_CHECKING:
    from ..analysis.observe import Watch
    from ..analysis.report import AnalysisReport
    from ..methods import Mast

ANALYSIS = "Analysis"

analyze = group("The paper's analyses: attention mass, entropy, sharpness, filter.")


def output() -> Any:
    return option(OUTPUT, "OUT", "Writes OUT.json, OUT.md and OUT.png.", names=("-o", "--output"))


@analyze.command()
@with_options
def allocation(
    request: PaintOptions,
    shared_run: Annotated[
        bool,
        flag(
            "--shared-run",
            help="Also run shared attention by itself, on its own trajectory.",
            panel=ANALYSIS,
        ),
    ] = False,
    name: Annotated[Path, output()] = Path("allocation"),
) -> None:
    """Attention mass on style, content and other styles, before and after LAMA (Table 4)."""
    with loading("the model", request.quiet):
        from ..analysis import allocation as part
        from ..analysis import plots
        from ..methods import SharedAttention

        work = Analysis(request, name)
        work.load()
    method, label = work.method, work.backbone.name
    watchers = [part.Allocation()]
    work.watch(watchers[0])
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
        work.watch(watchers[1], SharedAttention(lam=method.lam, pi=method.pi))
        notes.append("own run: shared attention denoising by itself, so its queries are its own")
    if any(watchers[0].tally.mean("lama.style", n=n) is None for n in watchers[0].tally.values("n")):
        notes.append(
            "some pictures have no interior query: raise --size, or the regions' strength is below 1"
        )
    work.finish(
        "Partition masses before and after LAMA",
        part.HEADER,
        part.table(watchers, label),
        part.data(watchers, work.backbone.sites),
        notes,
        plots.allocation(watchers, label, method.pi),
    )


@analyze.command()
@with_options
def entropy(
    request: PaintOptions,
    name: Annotated[Path, output()] = Path("entropy"),
) -> None:
    """Entropy per head: the content's attention, joint attention before and after STS (App. A.5)."""
    with loading("the model", request.quiet):
        from ..analysis import plots, sharpness

        work = Analysis(request, name)
        work.load()
    watcher, label = sharpness.Entropy(), work.backbone.name
    work.watch(watcher)
    counts = ", ".join(f"{len(seen)} with N={n}" for n, seen in sorted(watcher.tally.samples.items()))
    notes = [
        f"{label}, {counts}; the paper's figure has N=4 on SD 1.4 and gives no numbers",
        "nats; means over queries, layers, steps and pictures. recovered: the part of the gap between joint "
        "and content entropy that STS closes",
    ]
    work.finish(
        "Attention entropy by head",
        sharpness.ENTROPY_HEADER,
        watcher.table(),
        watcher.data(work.backbone.sites),
        notes,
        plots.entropy(watcher, f"{label}, pictures: {counts}"),
    )


@analyze.command()
@with_options
def sts(
    request: PaintOptions,
    name: Annotated[Path, output()] = Path("sts"),
) -> None:
    """How far STS moves masses from LAMA's targets: D_mass and rho_min by N (Table 8)."""
    with loading("the model", request.quiet):
        from ..analysis import plots, sharpness

        work = Analysis(request, name)
        work.load()
    watcher, label = sharpness.Drift(), work.backbone.name
    work.watch(watcher)
    notes = [
        f"{label} is another model than the paper's SD 1.4: compare the pattern, not the digits",
        "D_mass: Eq. 40, mean total variation from the targets over all queries, heads, layers, steps and "
        "pictures; rho_min: Eq. 41, the lowest mean correlation of a style's masses with its targets",
    ]
    work.finish(
        "Effect of STS on LAMA's masses",
        sharpness.DRIFT_HEADER,
        watcher.table(label),
        watcher.data(work.backbone.sites),
        notes,
        plots.drift(watcher, label),
    )


@analyze.command()
@with_options
def calibrate(
    request: PaintOptions,
    write_defaults: Annotated[
        bool,
        flag(
            "--write-defaults",
            help="Put the coefficients into the model folder's defaults.json.",
            panel=ANALYSIS,
        ),
    ] = False,
    name: Annotated[Path, output()] = Path("calibrate"),
) -> None:
    """Fits tau to a model: 120 factors in (0.8, 5) per head, layer and step (App. A.4). Also OUT.csv."""
    with loading("the model", request.quiet):
        from ..analysis import calibration, plots

        work = Analysis(request, name, (".json", ".md", ".png", ".csv"))
        defaults = calibration.check_model_folder(request.run.model) if write_defaults else None
        work.load()
        work.method = calibration.starting_method(work.backbone, **request.tuned.given)
    gaps = calibration.Gaps()
    work.watch(gaps)
    found = calibration.fit(gaps.pairs)
    notes = [
        f"{found.observations} observations on {work.backbone.name} from {len(request.jobs.jobs)} pictures "
        "(paper: about 480,000 from 200 on SD 1.4); use pictures that are not evaluated later",
        f"--tau {found.option}",
    ]
    gaps.save(work.outputs[".csv"])
    figure = plots.calibration(found, work.backbone.name)
    work.finish("tau from the sharpness gap", calibration.HEADER, found.table(), found.data(), notes, figure)
    if defaults is not None:
        calibration.write_defaults(defaults, found)
        say((str(defaults), "bold"), " now holds these coefficients")


@analyze.command("filter")
def filter_command(
    r: Annotated[
        str, option(ANALYSIS, "NUMBERS", "Frequency scales, with commas between them.")
    ] = "0.1,0.3,0.5,0.7,0.9",
    name: Annotated[Path, output()] = Path("filter"),
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """T(r): how much DDI's detail filter lets through, at 32x32 and 64x64 (App. A.6). Needs no model."""
    with loading("the filter", quiet):
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


@analyze.command()
@with_options
def maps(
    request: PaintOptions,
    layers: Annotated[
        str, option(ANALYSIS, "NUMBERS", "Controlled layers, from 1, with commas between them.")
    ] = "1,6",
    shown: Annotated[int, option(ANALYSIS, "N", "So many steps, from the first to the last.", min=1)] = 3,
    name: Annotated[Path, output()] = Path("maps"),
) -> None:
    """Maps of attention mass over the photo, per style, layer and step: shared, LAMA, LAMA + STS."""
    with loading("the model", request.quiet):
        from ..analysis import maps as part

        title, _ = request.jobs.only("maps are drawn for one picture")
        work = Analysis(request, name, plotted=False)
        work.load()
        sites = work.backbone.sites
        moves = work.backbone.schedule(work.settings.steps, work.settings.clean_end).moves
        watcher = part.Maps(_layers(layers, len(sites)), part.spread(len(moves), shown))
    (result,) = work.watch(watcher)
    seen = result.inputs
    styles = [(style.picture, f"{i + 1} {style.name}") for i, style in enumerate(seen.styles)]
    rows = watcher.rows([*[style for _, style in styles], "content"], sites)
    title = f"Attention mass, {title}, {work.backbone.name}"
    notes = ["colour: share of a place's attention, none to all; means over heads; shared before LAMA's bias"]
    picture = watcher.sheet(seen.photo, styles, result.image, title)
    work.finish(title, part.HEADER, part.table(rows), {"maps": rows}, notes, picture)


def _layers(text: str, count: int) -> list[int]:
    """ "1,6" -> [0, 5]."""
    numbers = text.split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= count for part in numbers):
        raise InputError(f"--layers {text}: give numbers from 1 to {count} with commas between them")
    return sorted({int(part) - 1 for part in numbers})


# ------------------------------------------------------------------------------------------------ shared


class Analysis:
    """Jobs watched while MAST paints them: checked before the model is loaded, written in the end."""

    method: Mast

    def __init__(
        self,
        request: PaintOptions,
        name: Path,
        suffixes: tuple[str, ...] = (".json", ".md", ".png"),
        plotted: bool = True,
    ):
        from ..analysis.report import check_outputs, figures
        from ..methods import make
        from ..pipeline import read_job

        self.jobs, self.tuned, self.run = request.jobs, request.tuned, request.run
        self.quiet = request.quiet
        self.outputs = check_outputs(name, request.overwrite, suffixes, self.jobs.inputs)
        if plotted:
            figures()
        self.run.check()
        make("mast", **self.tuned.given)
        for _, job in self.jobs.jobs:
            read_job(job)

    def load(self) -> None:
        """The model; every job is fitted to it once, so that nothing is refused late."""
        from ..methods import Mast
        from ..pipeline import default_method, engine_of, read_job, ready_to_paint

        self.backbone = self.run.load()
        # One trajectory, seen whole, unless more is asked for.
        whole = {name: self.run.changes.get(name, "off") for name in ("coarse", "windows")}
        self.settings = self.run.settings(self.backbone, **whole)
        method = default_method(self.backbone, "mast", **self.tuned.given)
        assert isinstance(method, Mast)
        self.method, engine = method, engine_of(method, self.backbone)
        for _, job in self.jobs.jobs:
            ready_to_paint(read_job(job), engine, self.settings)

    def watch(self, watch: Watch, method: Mast | None = None) -> list[Result]:
        """Runs every job under the onlooker's eyes, with a bar for each."""
        from ..analysis.observe import observe

        results: list[Result] = []
        for i, (name, job) in enumerate(self.jobs.jobs):
            if not self.quiet and len(self.jobs.jobs) > 1:
                say((name, "bold"), f" ({i + 1} of {len(self.jobs.jobs)})")
            with progress(self.quiet) as bar:
                results += observe(
                    [job], self.backbone, self.settings, method or self.method, watch, bar, first=i
                )
        return results

    def finish(
        self,
        title: str,
        header: tuple[str, ...],
        rows: list[tuple[str, ...]],
        data: dict[str, Any],
        notes: list[str],
        figure: Any,
    ) -> None:
        """Writes the numbers, with what was run, the table and the figure; and shows the table."""
        from .. import __version__
        from ..analysis.report import AnalysisReport
        from ..pipeline.provenance import effective

        record = {
            "mast": __version__,
            "model": {"name": self.backbone.name, "fingerprint": self.backbone.fingerprint},
            "settings": effective(self.settings, self.method),
            "method": self.method.options(),
            "pictures": [name for name, _ in self.jobs.jobs],
        }
        report = AnalysisReport(title, header, rows, {**record, **data}, notes)
        report.save(self.outputs, figure)
        _show(report, self.outputs, self.quiet)


def _show(report: AnalysisReport, outputs: dict[str, Path], quiet: bool) -> None:
    show([report.table], [])
    for text in [] if quiet else report.notes:
        note(text)
    if not quiet:
        say(*[(f"{path}  ", "bold") for path in outputs.values()])
