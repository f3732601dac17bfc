"""mast figure: the paper's picture figures on any job, as labelled sheets. Each writes OUT.png and
OUT.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..files import atomic, check_output, check_outputs
from ..job import InputError, Result, Settings
from .console import loading, note, progress, say
from .given_jobs import PaintOptions
from .options import OUTPUT, flag, group, option, with_options

if TYPE_CHECKING:
    from ..analysis.figures import FigurePlan, Panel
    from ..methods import Mast

FIGURE = "Figure"

figure = group("The paper's figures: styles added, backgrounds, sizes, ablation.")


@dataclass(frozen=True, kw_only=True)
class FigureOptions(PaintOptions):
    """What the sheet is like, besides."""

    height: Annotated[
        int, option(OUTPUT, "PIXELS", "Height of each picture on the sheet.", min=32, max=2048)
    ] = 256
    pictures: Annotated[
        bool, flag("--pictures", help="Also write each picture, OUT-1.png and so on.", panel=OUTPUT)
    ] = False


def output() -> Any:
    return option(OUTPUT, "FILE", "The sheet; OUT.json beside it.", names=("-o", "--output"))


@figure.command()
@with_options
def progressive(
    request: FigureOptions,
    name: Annotated[Path, output()] = Path("progressive.png"),
) -> None:
    """One style more in every picture under fixed masks; regions without a style yet stay content."""
    with loading("the model", request.quiet):
        from ..analysis import figures

        figure = Figure(request, name)
        figure.plan(lambda m, s: figures.progressive(request.jobs.jobs, m, s))
    figure.draw()


@figure.command()
@with_options
def backgrounds(
    request: FigureOptions,
    background: Annotated[
        list[str],
        option(
            FIGURE,
            "STYLE",
            "A style for what is left over; several times.",
            names=("-b", "--background"),
        ),
    ] = [],  # noqa: B006
    name: Annotated[Path, output()] = Path("backgrounds.png"),
) -> None:
    """The same foreground before changing backgrounds."""
    with loading("the model", request.quiet):
        from ..analysis import figures
        from ..images import read_rgb

        job = request.jobs.only("this figure shows one photo").job
        for style in background:
            read_rgb(style, "style image")
        figure = Figure(request, name, [Path(style) for style in background])
        figure.plan(lambda m, s: figures.backgrounds(job, background, m, s))
    figure.draw()


@figure.command()
@with_options
def sizes(
    request: FigureOptions,
    aspects: Annotated[
        str, option(FIGURE, "SHAPES", "Crops of the photo, WIDTH:HEIGHT with commas.")
    ] = "1:1,4:3,9:16",
    sizes: Annotated[str, option(FIGURE, "PIXELS", "Longer sides, with commas.")] = "512,768,1024",
    name: Annotated[Path, output()] = Path("sizes.png"),
) -> None:
    """Several crops of the photo, its masks cropped alike, at several sizes."""
    with loading("the model", request.quiet):
        from ..analysis import figures

        if request.run.size is not None:
            raise InputError("--size is one size; this figure takes several: --sizes 512,768")
        job, lengths = request.jobs.only("this figure shows one photo").job, _lengths(sizes)
        shapes = aspects.split(",")
        for shape in shapes:
            figures.parse_aspect(shape)
        figure = Figure(request, name)
        figure.plan(lambda m, s: figures.sizes(job, shapes, lengths, m, s))
    figure.draw()


@figure.command()
@with_options
def ablation(
    request: FigureOptions,
    name: Annotated[Path, output()] = Path("ablation.png"),
) -> None:
    """Shared attention, + LAMA, + STS, + DDI (Table 3)."""
    with loading("the model", request.quiet):
        from ..analysis import figures

        figure = Figure(request, name)
        figure.plan(lambda m, s: figures.ablation(request.jobs.jobs, m, s))
    figure.draw()


def _lengths(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--sizes {text}: give pixels with commas between them, as in 512,768,1024")
    lengths = [int(part) for part in parts]
    for length in lengths:
        Settings(size=length)
    return lengths


class Figure:
    """A sheet: checked and planned before the model is loaded, then run and written."""

    def __init__(self, request: FigureOptions, name: Path, others: list[Path] | tuple[()] = ()):
        """others: files it reads beside those of the jobs."""
        self.request, self.tuned, self.run = request, request.tuned, request.run
        self.path, self.inputs = name, [*request.jobs.inputs, *others]
        self.record = name.with_suffix(".json")
        check_output(self.path, request.overwrite)
        check_outputs([self.path, self.record], self.inputs, request.overwrite)
        self.run.check()
        from ..pipeline import read_job

        for _, job in request.jobs.jobs:
            read_job(job)

    def plan(self, make: Callable[[Mast, Settings], FigurePlan]) -> None:
        """Plans the sheet on paper, where its own refusals come; then with the model, which is loaded."""
        from ..methods import Mast
        from ..pipeline import default_method, engine_of, read_job, ready_to_paint

        paper = default_method(None, "mast", **self.tuned.given)
        assert isinstance(paper, Mast)
        count = len(make(paper, Settings()).runs)
        self.each = [
            self.path.with_name(f"{self.path.stem}-{i + 1}.png")
            for i in range(count if self.request.pictures else 0)
        ]
        check_outputs([self.path, *self.each], self.inputs, self.request.overwrite)
        self.backbone = self.run.load()
        method = default_method(self.backbone, "mast", **self.tuned.given)
        assert isinstance(method, Mast)
        self.planned = make(method, self.run.settings(self.backbone))
        for panel in self.planned.runs:
            engine = engine_of(panel.method, self.backbone)
            ready_to_paint(read_job(panel.job), engine, panel.settings)

    def draw(self) -> None:
        from ..analysis.figures import record
        from ..images import save_png

        planned = self.planned
        picture, results = planned.paint(self._paint, self.request.height)
        for path, result in zip(self.each, results, strict=False):
            save_png(result.image, path)
        save_png(picture, self.path)
        with atomic(self.record) as part:
            made = {"title": planned.title, "notes": planned.notes, "pictures": record(planned, results)}
            part.write_text(json.dumps(made, indent=1) + "\n")
        for text in [] if self.request.quiet else planned.notes:
            note(text)
        print(self.path)

    def _paint(self, index: int, panel: Panel) -> Result:
        from ..pipeline import stylize

        quiet = self.request.quiet
        if not quiet:
            say((panel.caption, "bold"), f" ({index + 1} of {len(self.planned.runs)})")
        with progress(quiet) as bar:
            return stylize(panel.job, self.backbone, panel.method, panel.settings, bar)
