"""mast figure: the paper's picture figures on any job, as labelled sheets. Each writes OUT.png and
OUT.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..files import atomic, check_output
from ..images import read_rgb, save_png
from ..job import InputError, Job, Result, Settings
from .app import app, progress, say
from .jobs import JobOptions
from .requests import with_request

if TYPE_CHECKING:
    from ..analysis.figures import FigurePlan, Panel
    from ..methods import Mast

figure_app = typer.Typer(
    no_args_is_help=True, help="The paper's figures: styles added, backgrounds, sizes, ablation."
)
app.add_typer(figure_app, name="figure")

Height = Annotated[int, typer.Option(min=32, max=2048, help="Height of each picture on the sheet.")]
Pictures = Annotated[bool, typer.Option("--pictures", help="Also write each picture, OUT-1.png and so on.")]


def output(name: str) -> Any:
    return typer.Option("-o", "--output", help=f"The sheet; OUT.json beside it ({name} if not given).")


@figure_app.command()
@with_request
def progressive(
    request: JobOptions,
    height: Height = 256,
    pictures: Pictures = False,
    name: Annotated[Path, output("progressive.png")] = Path("progressive.png"),
) -> None:
    """One style more in every picture under fixed masks; regions without a style yet stay content."""
    from ..analysis import figures

    _draw(request, name, height, pictures, lambda m, s: figures.progressive(request.jobs, m, s))


@figure_app.command()
@with_request
def backgrounds(
    request: JobOptions,
    background: Annotated[
        list[str], typer.Option("-b", "--background", help="A style for what is left over; several times.")
    ] = [],  # noqa: B006
    height: Height = 256,
    pictures: Pictures = False,
    name: Annotated[Path, output("backgrounds.png")] = Path("backgrounds.png"),
) -> None:
    """The same foreground before changing backgrounds."""
    from ..analysis import figures

    job = _one(request)
    for style in background:
        read_rgb(style, "style image")
    _draw(
        request, name, height, pictures, lambda m, s: figures.backgrounds(job, background, m, s), background
    )


@figure_app.command()
@with_request
def sizes(
    request: JobOptions,
    aspects: Annotated[
        str, typer.Option(help="Crops of the photo, WIDTH:HEIGHT with commas.")
    ] = "1:1,4:3,9:16",
    sizes: Annotated[str, typer.Option(help="Longer sides in pixels, with commas.")] = "512,768,1024",
    height: Height = 256,
    pictures: Pictures = False,
    name: Annotated[Path, output("sizes.png")] = Path("sizes.png"),
) -> None:
    """Several crops of the photo, its masks cropped alike, at several sizes."""
    from ..analysis import figures

    if request.size is not None:
        raise InputError("--size is one size; this figure takes several: --sizes 512,768")
    job, lengths = _one(request), _lengths(sizes)
    shapes = aspects.split(",")
    for shape in shapes:
        figures.parse_aspect(shape)
    _draw(request, name, height, pictures, lambda m, s: figures.sizes(job, shapes, lengths, m, s))


@figure_app.command()
@with_request
def ablation(
    request: JobOptions,
    height: Height = 256,
    pictures: Pictures = False,
    name: Annotated[Path, output("ablation.png")] = Path("ablation.png"),
) -> None:
    """Shared attention, + LAMA, + STS, + DDI (Table 3)."""
    from ..analysis import figures

    _draw(request, name, height, pictures, lambda m, s: figures.ablation(request.jobs, m, s))


# ------------------------------------------------------------------------------------------------ shared


def _one(request: JobOptions) -> Job:
    if len(request.jobs) != 1:
        raise InputError(f"this figure shows one photo; {len(request.jobs)} jobs were given, choose one")
    return request.jobs[0].job


def _lengths(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--sizes {text}: give pixels with commas between them, as in 512,768,1024")
    return [Settings(size=int(part)).size for part in parts]


def _draw(
    request: JobOptions,
    name: Path,
    height: int,
    pictures: bool,
    make: Callable[[Mast, Settings], FigurePlan],
    others: list[str] | tuple[()] = (),
) -> None:
    """Plans the sheet, checks all that can be checked, runs it, and writes it."""
    inputs = {path.resolve() for path in [*request.inputs, *map(Path, others)]}
    sheet_path = check_output(name, request.overwrite)
    record_path = check_output(name.with_suffix(".json"), request.overwrite, (".json",))
    if sheet_path.resolve() in inputs:
        raise InputError(f"{name}: this is one of the inputs; choose another name for the output")
    request.check()
    from ..methods import Mast
    from ..methods import make as method_of

    plain = method_of("mast", **request.options)
    assert isinstance(plain, Mast)
    count = len(make(plain, Settings()).runs)  # a plan on paper: its own refusals come before the model
    each = [name.with_name(f"{name.stem}-{i + 1}.png") for i in range(count if pictures else 0)]
    for path in each:
        check_output(path, request.overwrite)

    from ..analysis import figures
    from ..pipeline.prepare import prepare
    from ..pipeline.stylize import default_method, stylize

    backbone, settings = request.load()
    method = default_method(backbone, "mast", **request.options)
    assert isinstance(method, Mast)
    plan = make(method, settings)
    for run in plan.runs:
        prepare(run.job, backbone, run.settings)

    def paint(index: int, run: Panel) -> Result:
        if not request.quiet:
            say(f"[bold]{escape(run.caption)}[/] ({index + 1} of {count})")
        with progress(request.quiet) as bar:
            return stylize(run.job, backbone, run.method, run.settings, bar)

    picture, results = plan.paint(paint, height)
    for path, result in zip(each, results, strict=False):
        save_png(result.image, path)
    save_png(picture, sheet_path)
    with atomic(record_path) as part:
        made = {"title": plan.title, "notes": plan.notes, "pictures": figures.record(plan, results)}
        part.write_text(json.dumps(made, indent=1) + "\n")
    for note in [] if request.quiet else plan.notes:
        say(f"[dim]note:[/] {escape(note)}")
    print(sheet_path)
