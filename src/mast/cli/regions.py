"""mast regions auto | click | box | edit | show: from a photo to masks, without an image editor."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..files import check_outputs
from ..job import InputError, Job, Region
from .console import loading, note, out, say
from .finding import RegionFinder, load_segmenter
from .options import MODEL, OUTPUT, AsJson, Overwrite, Quiet, group, option

if TYPE_CHECKING:
    from ..regions.partition import NamedMasks
    from ..regions.segment import Prompt

regions = group("Regions of a photo: found, clicked, edited, shown.")

FINDING, EDITING = "Finding", "Editing, in the order given"
Photo = Annotated[Path, typer.Argument(metavar="PHOTO", help="The photo.")]
MaskFile = Annotated[
    Path, option(OUTPUT, "MASK.png", "The mask, white where the object is.", names=("-o", "--output"))
]
Selecting = Annotated[
    str, option(FINDING, "NAME", "mobile-sam, or FILE.py:CLASS for one of your own (docs/regions.md).")
]


@regions.command()
def auto(
    photo: Photo,
    output: Annotated[Path, option(OUTPUT, "DIR", "A new folder for masks, map and overlay.", names=("-o",))],
    n: Annotated[
        int, option(FINDING, "N", "How many regions: N - 1 objects and a background.", names=("-n",))
    ] = 3,
    segmenter: Annotated[
        str,
        option(FINDING, "NAME", "mobile-sam, FILE.py:CLASS for your own, or colours to do without one."),
    ] = "mobile-sam",
    job: Annotated[
        Path | None, option(OUTPUT, "JOB.toml", "Also write a job file of them, for mast stylize JOB.toml.")
    ] = None,
    style: Annotated[
        list[Path] | None,
        option(OUTPUT, "FILE", "For the job file: the regions' paintings, in order.", names=("--style",)),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Divides a photo into N regions that tile it: one grey PNG each, a colour map and an overlay."""
    with loading("the segmenter", quiet):
        from ..images import read_rgb
        from ..regions.auto import check_count
        from ..regions.found import check_folder
        from ..regions.show import save_folder

        check_count(n)
        check_folder(output, overwrite)
        styles = list(style or [])
        if styles and job is None:
            raise InputError("--style belongs to --job JOB.toml; add it")
        if styles and len(styles) != n:
            raise InputError(f"--style: {len(styles)} of them; give {n}, one for each region, or none")
        for path in styles:
            read_rgb(path, "style image")
        if job is not None:
            check_outputs([job], [photo, *styles], overwrite, (".toml",))
        picture = read_rgb(photo, "photo")
    made = RegionFinder(segmenter, quiet)(picture, n)
    files = save_folder(output, picture, made.regions)
    if job is not None:
        _write_job(job, photo, made.regions.names, files, styles, overwrite)
    _report(made.regions, made.notes, quiet, as_json, files=[str(file) for file in files])
    if not quiet and not as_json:
        say(f"look at them: {output / 'overlay.png'}")
        if job is not None:
            fill = "" if styles else ", when their styles are filled in"
            say(f"paint them{fill}: mast stylize {job}")


def _write_job(
    path: Path, photo: Path, names: tuple[str, ...], masks: list[Path], styles: list[Path], overwrite: bool
) -> None:
    """A job file of regions that were found; without styles, these are to be filled in."""
    from ..pipeline.jobfile import JobFile, write_jobfile

    paintings: list[Path | str] = [*styles] or [""] * len(names)
    regions = [Region(style, mask) for style, mask in zip(paintings, masks, strict=False)]
    job = Job(photo, tuple(regions))
    write_jobfile(JobFile(job, names, output=photo.with_name(f"{photo.stem}-painted.png")), path, overwrite)


@regions.command()
def click(
    photo: Photo,
    output: MaskFile,
    at: Annotated[list[str], option(FINDING, "X,Y", "A point in the object, in pixels; as often as needed.")],
    away: Annotated[
        list[str] | None, option(FINDING, "X,Y", "A point that is not in it.", names=("--not",))
    ] = None,
    segmenter: Selecting = "mobile-sam",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """One object, by points inside it and points outside."""
    from ..regions.segment import Prompt

    inside, outside = (
        tuple(_numbers(text, 2, name) for text in texts)
        for name, texts in (("--at", at), ("--not", away or []))
    )
    _select(photo, output, Prompt(at=inside, away=outside), segmenter, overwrite, quiet)


@regions.command()
def box(
    photo: Photo,
    corners: Annotated[str, typer.Argument(metavar="X0,Y0,X1,Y1", help="Left, upper, right, lower side.")],
    output: MaskFile,
    segmenter: Selecting = "mobile-sam",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """One object, by a box around it."""
    from ..regions.segment import Prompt

    _select(photo, output, Prompt(box=_numbers(corners, 4, "box")), segmenter, overwrite, quiet)


def _select(photo: Path, output: Path, prompt: Prompt, segmenter: str, overwrite: bool, quiet: bool) -> None:
    with loading("the segmenter", quiet):
        from ..images import read_rgb, save_png
        from ..regions.segment import check_prompt, select
        from ..regions.show import mask_picture

        check_outputs([output], [photo], overwrite, (".png",))
        picture = read_rgb(photo, "photo")
        check_prompt(prompt, picture.size)
    mask = select(load_segmenter(segmenter, "select", quiet), picture, prompt)
    save_png(mask_picture(mask), output)
    if not quiet:
        say(f"{output}: {float(mask.mean()):.1%} of the photo")


# ------------------------------------------------------------------------------------------------ editing


class InGivenOrder(TyperCommand):
    """A command that knows in which order its options were given: ctx.meta["order"] names them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args:
            ctx.meta["order"] = [one.name for one in self.make_parser(ctx).parse_args(args=list(args))[2]]
        return super().parse_args(ctx, args)


def _pixels(name: str, help: str) -> Any:
    return option(EDITING, "PIXELS", help, names=(name,))


def _mask(name: str, help: str) -> Any:
    return option(EDITING, "MASK", help, names=(name,))


def _step(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel=EDITING, metavar="")


@regions.command(cls=InGivenOrder)
def edit(
    ctx: typer.Context,
    mask: Annotated[Path, typer.Argument(metavar="MASK", help="The mask, or MAP.png#rrggbb.")],
    output: MaskFile,
    grow: Annotated[list[float] | None, _pixels("--grow", "Larger by so much on all sides.")] = None,
    shrink: Annotated[list[float] | None, _pixels("--shrink", "Smaller by so much.")] = None,
    feather: Annotated[list[float] | None, _pixels("--feather", "An edge that fades over so much.")] = None,
    drop_specks: Annotated[
        list[float] | None, _pixels("--drop-specks", "Drop parts of a smaller area than this.")
    ] = None,
    fill_holes: Annotated[bool, _step("--fill-holes", "Fill what the mask encloses.")] = False,
    invert: Annotated[bool, _step("--invert", "Outside becomes inside.")] = False,
    subtract: Annotated[list[Path] | None, _mask("--subtract", "Take away what another mask has.")] = None,
    intersect: Annotated[list[Path] | None, _mask("--intersect", "Keep what another has too.")] = None,
    unite: Annotated[list[Path] | None, _mask("--unite", "Add what another has.")] = None,
    snap: Annotated[
        list[Path] | None,
        option(EDITING, "PHOTO", "Move edges to those of the photo.", names=("--snap",)),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Changes a mask: any of the operations, as often as you like, one after the other."""
    from ..images import read_mask, read_rgb, save_png
    from ..regions import edit as editing
    from ..regions.masks import match_size
    from ..regions.show import mask_picture

    lengths = {"grow": grow, "shrink": shrink, "feather": feather, "drop_specks": drop_specks}
    others = {"subtract": subtract, "intersect": intersect, "unite": unite}
    left: dict[str, list[Any]] = {
        name: list(values or []) for name, values in {**lengths, **others, "snap": snap}.items()
    }
    check_outputs(
        [output], [mask, *(path for name in (*others, "snap") for path in left[name])], overwrite, (".png",)
    )
    for name, values in lengths.items():
        for value in values or []:
            if not (math.isfinite(value) and 0 <= value <= MOST_PIXELS[name]):
                raise InputError(
                    f"--{name.replace('_', '-')} {value:g}: give pixels from 0 to {MOST_PIXELS[name]:,}"
                )
    steps = [name for name in ctx.meta["order"] if name in left or name in ("fill_holes", "invert")]
    if not steps:
        raise InputError("nothing to do; add --grow, --feather, --snap PHOTO or another operation")
    edited = read_mask(mask)
    size = (edited.shape[1], edited.shape[0])
    for name in steps:
        given: Any = left[name].pop(0) if name in left else None
        operation = getattr(editing, name)
        if name in others:
            edited = operation(edited, match_size(read_mask(given), size, str(given), "the first mask"))
        elif name == "snap":
            picture = read_rgb(given, "photo")
            edited = operation(match_size(edited, picture.size, str(mask), "the photo"), picture)
            size = picture.size
        else:
            edited = operation(edited) if given is None else operation(edited, given)
    save_png(mask_picture(edited), output)
    if not quiet:
        say(f"{output}: {float(edited.mean()):.1%} of the picture")
        if float(edited.max()) < 0.5:
            note("nothing of the mask is left", "yellow")


MOST_PIXELS = {"grow": 500, "shrink": 500, "feather": 1000, "drop_specks": 10**8}


# ------------------------------------------------------------------------------------------------ showing


@regions.command()
def show(
    photo: Photo,
    region: Annotated[
        list[str],
        option(
            FINDING,
            "SOURCE",
            "A mask, MAP.png#rrggbb, a colour or label map (.png, .npy, .mat), a folder of masks, COCO's "
            ".json, .psd or .ora; as often as needed.",
            names=("-r", "--region"),
        ),
    ],
    output: Annotated[
        Path | None, option(OUTPUT, "FILE.png", "The regions over the photo.", names=("-o", "--output"))
    ] = None,
    model: Annotated[
        str, option(MODEL, "MODEL", "Whose grids the regions must survive; none to leave that out.")
    ] = "preview",
    size: Annotated[
        int | None,
        option(
            MODEL,
            "PIXELS",
            "Longer side at which it works.",
            "the model's; the photo's if smaller",
            min=64,
            max=8192,
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The regions over the photo, their names and shares, and which would vanish on the model's grids."""
    with loading("the regions", quiet):
        from ..images import read_rgb, save_png
        from ..regions.read import read_regions
        from ..regions.show import picture as drawn
        from ..regions.show import vanishing

        if output is not None:
            check_outputs([output], [photo, *region], overwrite, (".png",))
        picture = read_rgb(photo, "photo")
        notes: list[str] = []
        found = read_regions(region, photo, picture.size, notes)
        grids = [] if model == "none" else _grids(model, picture.size, size)
        lost = vanishing(found, grids)
    if output is not None:
        save_png(drawn(picture, found), output)
    _report(
        found,
        notes,
        quiet,
        as_json,
        lost={name: [f"{h}x{w}" for h, w in where] for name, where in lost.items()},
        grids=[f"{h}x{w}" for h, w in grids],
    )


def _grids(model: str, photo: tuple[int, int], size: int | None) -> list[tuple[int, int]]:
    """(h, w) of the feature maps on which a model's styles are applied, coarsest first."""
    from ..backbone.load import load
    from ..images import work_size

    backbone = load(model)
    longer = size or max(64, min(backbone.native_size, max(photo)))
    width, height = work_size(*photo, longer, backbone.stride, "resize")[1]
    latent = (height // backbone.latent_stride, width // backbone.latent_stride)
    return sorted({site.grid(latent) for site in backbone.sites})


# ------------------------------------------------------------------------------------------------ shared


def _numbers(text: str, count: int, name: str) -> tuple[Any, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != count or not all(map(math.isfinite, found)):
        example = "120,80" if count == 2 else "40,60,200,180"
        raise InputError(f"{name} {text}: write {count} numbers with commas between them, as in {example}")
    return found


def _report(found: NamedMasks, notes: list[str], quiet: bool, as_json: bool, **more: Any) -> None:
    """Names and shares on stdout; what is lost or was passed over beside them."""
    lost = more.get("lost", {})
    if as_json:
        listed = [
            {"name": name, "share": share} for name, share in zip(found.names, found.shares, strict=True)
        ]
        print(json.dumps({"regions": listed, "notes": notes, **more}))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("region", "share", *(["vanishes at"] if "lost" in more else []), box=None)
    for name, share in zip(found.names, found.shares, strict=True):
        where = [", ".join(lost.get(name, [])) or "-"] if "lost" in more else []
        table.add_row(Text(name), f"{share:.1%}", *where)
    out.print(table)
    covered = float(found.masks.sum(0).clip(0, 1).mean())
    if covered < 0.999:
        out.print(Text(f"{1 - covered:.1%} of the photo is in no region and stays as it is", "dim"))
    for text in [] if quiet else notes:
        note(text, "yellow")
    if lost and not quiet:
        way_out = "enlarge the mask or work at a larger --size"
        note(f"{', '.join(lost)}: too small for the model at this size; {way_out}", "yellow")
