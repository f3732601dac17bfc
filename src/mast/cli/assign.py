"""mast assign PHOTO STYLE ...: which style goes where. `mast stylize PHOTO STYLE ...` begins with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files import check_outputs
from ..job import InputError, Job, Region
from .console import console, loading, note, out, say
from .finding import COLOURS, InFoundRegions, RegionFinder
from .options import OUTPUT, REGIONS, AsJson, Overwrite, Quiet, option

if TYPE_CHECKING:
    from PIL import Image
    from rich.table import Table

    from ..backbone.backbone import Backbone
    from ..regions.assign import Assignment
    from ..regions.auto import Divided
    from ..regions.partition import NamedMasks


def assign(
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="The photo.")],
    styles: Annotated[list[Path], typer.Argument(metavar="STYLE...", help="Paintings, in any order.")],
    n: Annotated[
        int | None, option(REGIONS, "N", "How many regions to find.", "as many as styles", names=("-n",))
    ] = None,
    segmenter: Annotated[
        str | None,
        option(
            REGIONS,
            "NAME",
            "mobile-sam, FILE.py:CLASS for your own, or colours to do without one.",
            "mobile-sam; colours where it cannot be had",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            OUTPUT, "DIR", "A new folder for masks, map and overlay; and the job DIR.toml.", names=("-o",)
        ),
    ] = None,
    job: Annotated[
        Path | None, option(OUTPUT, "JOB.toml", "The job file elsewhere; without DIR, masks in JOB.regions.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Proposes regions and a style for each, says how sure it is, and writes a job for mast stylize."""
    with loading("the segmenter", quiet):
        from ..regions.found import check_folder, regions_folder

        folder, target = output, job
        if output is not None and job is None:
            target = output.with_name(f"{output.name}.toml")
        elif job is not None and output is None:
            folder = regions_folder(job)
        if folder is not None and target is not None:
            check_outputs([target], [photo, *styles], overwrite, (".toml",))
            check_folder(folder, overwrite)
        asked = Asked.read(photo, styles, n)
        finder = AnyFinder(segmenter, quiet)
    divided = finder(asked.picture, asked.n)
    found = asked.answer(divided.regions, [*divided.notes, *finder.notes])
    files = found.save(folder, target, overwrite) if folder is not None and target is not None else []
    if as_json:
        print(json.dumps({**found.report(), "files": [str(file) for file in files]}))
        return
    out.print(found.table())
    if quiet:
        return
    found.tell()
    if folder is None:
        say("nothing is written; -o DIR keeps the masks and a job file")
    else:
        say(f"look at them: {folder / 'overlay.png'}; paint it: mast stylize {target}")


# ------------------------------------------------------------------------------------------------ finding


class AnyFinder(RegionFinder):
    """Divides photos by the segmenter that is named. If none is, by mobile-sam; and where that cannot be had,
    by colour and place: once it is loaded `name` says by what, and `notes` why.
    """

    def __init__(self, segmenter: str | None, quiet: bool) -> None:
        super().__init__(segmenter or "mobile-sam", quiet)
        self.must, self.notes = segmenter is not None, list[str]()
        self.coarse = not self.must and find_spec("scipy") is None
        if not self.must and (self.coarse or find_spec("onnxruntime") is None):
            self._do_without("no segmenter is installed; pip install 'mast[segment]' to have objects found")

    def _do_without(self, note: str) -> None:
        super().__init__(COLOURS, self.quiet)
        self.notes.append(note)

    def load(self) -> tuple[Any, Any]:
        try:
            return super().load()
        except InputError as error:
            if self.must:
                raise
            self._do_without(f"no segmenter: {error}")
            return super().load()

    def __call__(self, photo: Image.Image, n: int) -> Divided:
        if not self.coarse:
            return super().__call__(photo, n)
        from ..regions.coarse import divide_coarsely

        return divide_coarsely(photo, n)


@dataclass(frozen=True)
class Asked:
    """A photo and paintings, read; and how many regions are wanted."""

    photo: Path
    paths: tuple[Path, ...]
    picture: Image.Image
    pictures: tuple[Image.Image, ...]
    n: int

    @classmethod
    def read(cls, photo: Path, styles: list[Path], n: int | None = None) -> Asked:
        from ..images import read_rgb
        from ..regions.auto import MOST_REGIONS, check_count

        if n is None and len(styles) > MOST_REGIONS:
            raise InputError(
                f"{len(styles)} styles, and no more than {MOST_REGIONS} regions are found; give fewer, or "
                "have mast assign -n N choose the N that suit best"
            )
        if n is None and len(styles) < 2:
            raise InputError("one style needs no regions; give another one, or -n 2 to use it in both")
        wanted = len(styles) if n is None else n
        check_count(wanted)
        picture = read_rgb(photo, "photo")
        pictures = tuple(read_rgb(style, "style image") for style in styles)
        return cls(photo, tuple(styles), picture, pictures, wanted)

    def answer(self, regions: NamedMasks, notes: list[str], backbone: Backbone | None = None) -> Assigned:
        """A style for each region. The embedded model compares them, whichever will paint; backbone: the one
        that will, in case it is the same.
        """
        from ..backbone.load import load
        from ..regions.assign import assign as match

        own = backbone is not None and (backbone.name, str(backbone.device)) == ("preview", "cpu")
        model = backbone if own and backbone is not None else load("preview", "cpu")
        return Assigned(self, match(self.picture, regions, self.pictures, model), notes)


# ------------------------------------------------------------------------------------------------ telling


@dataclass(frozen=True)
class Assigned:
    """An assignment with the files it is about."""

    asked: Asked
    found: Assignment
    notes: list[str] = field(default_factory=list)

    def style(self, number: int) -> str:
        return self.asked.paths[number].stem

    def way(self, numbers: tuple[int, ...]) -> str:
        """An assignment in words."""
        names = self.found.regions.names
        return ", ".join(f"{name} in {self.style(j)}" for name, j in zip(names, numbers, strict=True))

    def table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table("region", "share", "style", "why", box=None)
        regions, found = self.found.regions, self.found
        for row in zip(regions.names, regions.shares, found.styles, found.reasons, strict=True):
            name, share, style, reason = row
            table.add_row(Text(name), f"{share:.1%}", Text(self.style(style)), reason)
        return table

    def tell(self) -> None:
        """How sure it is, and what had to be passed over."""
        from ..regions.assign import CLEAR, TOSS_UP

        found, sure = self.found, f"how sure: {self.found.verdict}"
        if found.margin is not None and found.other is not None:
            scale = f"below {TOSS_UP:g} is a toss-up, from {CLEAR:g} on it is clear"
            sure += f", {found.margin:.2f} ({scale}); next best: {self.way(found.other)}"
        say(sure)
        if found.unused:
            note(f"not used: {', '.join(self.style(j) for j in found.unused)}")
        for text in self.notes:
            note(text, "yellow")

    def report(self) -> dict[str, Any]:
        """The same for programs."""
        found, paths = self.found, self.asked.paths
        rows = zip(found.regions.names, found.regions.shares, found.styles, found.reasons, strict=True)
        return {
            "regions": [
                {"name": name, "share": share, "style": str(paths[j]), "why": why}
                for name, share, j, why in rows
            ],
            "verdict": found.verdict,
            "margin": found.margin,
            "next_best": None if found.other is None else [str(paths[j]) for j in found.other],
            "unused": [str(paths[j]) for j in found.unused],
            "notes": self.notes,
        }

    # -------------------------------------------------------------------------------------------- keeping

    def job(self, masks: list[Path]) -> Job:
        """masks: the regions', as files."""
        styles = (self.asked.paths[j] for j in self.found.styles)
        return Job(
            self.asked.photo,
            tuple(Region(style, str(mask)) for style, mask in zip(styles, masks, strict=True)),
        )

    def sheet(self) -> Image.Image:
        """The regions over the photo, and each painting in a frame of its region's colour."""
        from ..regions.show import outlined, palette
        from ..sheets import Tile, overlay, sheet

        regions, photo = self.found.regions, self.asked.picture
        colours = palette(len(regions.names))
        seen = outlined(overlay(photo, regions.masks, 0.6, colours), regions)
        rows = zip(regions.names, regions.shares, self.found.styles, colours, strict=True)
        styles = [
            Tile(self.asked.pictures[j], f"{name} {share:.0%}: {self.style(j)}", colour)
            for name, share, j, colour in rows
        ]
        return sheet([[Tile(seen, self.asked.photo.stem), *styles]])

    def save(self, folder: Path, target: Path, overwrite: bool) -> list[Path]:
        """Masks, map and overlay in a folder, and the job file."""
        from ..images import save_png
        from ..pipeline.jobfile import JobFile, write_jobfile
        from ..regions.show import OVERLAY, save_folder

        names = self.found.regions.names
        files = save_folder(folder, self.asked.picture, self.found.regions)
        save_png(self.sheet(), folder / OVERLAY)
        write_jobfile(JobFile(self.job(files[: len(names)]), names), target, overwrite)
        return [*files, target]


# ------------------------------------------------------------------------------------------------ stylize


@dataclass(frozen=True)
class InMatchingRegions(InFoundRegions):
    """Gives jobs of `mast stylize PHOTO STYLE STYLE ...` masks, and each region the style that suits it. What
    was chosen is in OUT.regions.png to look at; the masks are in OUT.regions/.

    alone: there is one photo, so it is told; then `report` has it for programs.
    """

    alone: bool
    backbone: Backbone | None = None
    report: dict[str, Any] = field(default_factory=dict)

    def job(self, job: Job, output: Path) -> tuple[Job, list[str]]:
        """The job with masks, its styles in the order of their regions; and notes that are not told yet."""
        import numpy as np

        from ..images import read_mask, save_png
        from ..regions.found import regions_folder
        from ..regions.masks import match_size
        from ..regions.partition import NamedMasks

        seen, telling = output.with_suffix(".regions.png"), self.alone and not self.finder.quiet
        files = [Path(str(region.style)) for region in job.regions]
        check_outputs([seen], [job.content, *files], self.overwrite or regions_folder(output).is_dir())
        asked = Asked.read(Path(str(job.content)), files)
        if telling:
            say(f"no masks: finding {self.n} regions in {asked.photo.name}, one for each style ...")
        self.finder.load()
        found_job, notes = super().job(job, output)
        masks = [Path(str(region.mask)) for region in found_job.regions]
        size = asked.picture.size
        read = [match_size(read_mask(mask), size, str(mask), "the photo") for mask in masks]
        regions = NamedMasks(tuple(mask.stem for mask in masks), np.stack(read))
        notes += self.finder.notes if isinstance(self.finder, AnyFinder) else []
        found = asked.answer(regions, notes, self.backbone)
        save_png(found.sheet(), seen)
        self.report.update(found.report())
        if telling:
            console.print(found.table())
            found.tell()
            say(f"look at the regions: {seen}; their masks, to edit or to swap: {regions_folder(output)}")
        return found.job(masks), [] if telling else notes
