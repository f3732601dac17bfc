"""mast stylize PHOTO -r MASK=STYLE ... -o OUT.png: parse, read, load, repaint, save; then the extras.

Everything that can be refused is refused before the model is loaded.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..job import InputError, Job
from .console import loading, note, progress, say
from .options import (
    MACHINE,
    METHOD,
    OUTPUT,
    REGIONS,
    AsJson,
    Composite,
    MastOptions,
    Metadata,
    Overwrite,
    Quiet,
    Region,
    RunOptions,
    flag,
    option,
    with_options,
)
from .outputs import Outputs

if TYPE_CHECKING:
    from ..methods.spec import MethodSpec


@with_options
def stylize(
    photo: Annotated[Path, typer.Argument(help="The photo to repaint.")],
    region: Region = [],  # noqa: B006
    colour_map: Annotated[
        Path | None, option(REGIONS, "FILE", "A colour-coded map instead of masks.", names=("--map",))
    ] = None,
    colour_style: Annotated[
        list[str],
        option(REGIONS, "COLOUR=STYLE", "With --map: '#RRGGBB=STYLE'.", names=("-s", "--style")),
    ] = [],  # noqa: B006
    style_mask: Annotated[
        list[str], option(REGIONS, "N=FILE", "Only this part of region N's painting counts.")
    ] = [],  # noqa: B006
    auto: Annotated[
        bool,
        flag(
            "--auto",
            help="The method finds the regions itself (stylegallery, stylemixer can).",
            panel=REGIONS,
        ),
    ] = False,
    output: Annotated[
        Path, option(OUTPUT, "FILE", "The picture: .png, .jpg, .webp or .tif.", names=("-o", "--output"))
    ] = Path("mast.png"),
    contact_sheet: Annotated[
        bool, flag("--contact-sheet", help="Also write OUT.sheet.png.", panel=OUTPUT)
    ] = False,
    save_masks: Annotated[
        bool, flag("--save-masks", help="Also write the masks as used.", panel=OUTPUT)
    ] = False,
    preview_every: Annotated[
        int, option(OUTPUT, "N", "Keep a current OUT.preview.png, new every N steps; 0: none.", min=0)
    ] = 0,
    metadata: Metadata = True,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    method: Annotated[
        str, option(METHOD, "METHOD", "A name from `mast methods`, with options as in styleid:gamma=0.3.")
    ] = "mast",
    *,
    tuned: MastOptions,
    lama: Annotated[
        bool, flag("--lama/--no-lama", help="Mass: attention is allotted by mask (LAMA).", panel=METHOD)
    ] = True,
    sts: Annotated[
        bool, flag("--sts/--no-sts", help="Sharpness: as sharp as the photo's own (STS).", panel=METHOD)
    ] = True,
    ddi: Annotated[
        bool, flag("--ddi/--no-ddi", help="Detail: fine structure is the photo's (DDI).", panel=METHOD)
    ] = True,
    composite: Composite = None,
    run: RunOptions,
    compiled: Annotated[
        bool,
        flag("--compile", help="torch.compile the U-Net: for many pictures on a GPU.", panel=MACHINE),
    ] = False,
) -> None:
    """Repaints every region of PHOTO in its own style."""
    began = time.perf_counter() - time.process_time()  # what was imported so far is the work done so far
    with loading("the model" if method == "mast" else method.partition(":")[0], quiet):
        from ..methods import METHODS, make
        from ..methods.spec import parse_method
        from ..pipeline import bytes_on, default_method, read_job
        from ..pipeline import stylize as paint
        from ..pipeline.compose import check_parts
        from ..pipeline.inputs import composited

        imported = time.perf_counter()
        spec = parse_method(method)
        switches = {name: False for name, on in (("lama", lama), ("sts", sts), ("ddi", ddi)) if not on}
        options = {**spec.options, **tuned.given, **switches, **_auto(spec, auto)}
        chosen = make(spec.method, **options)
        run.check(composite=composite)
        job, notes = _job(photo, region, colour_map, colour_style, style_mask)
        if not job.regions and spec.method != "reconstruct":
            raise InputError(
                "no region given; add -r MASK=STYLE (or rest=STYLE for the whole photo), or use --method "
                "reconstruct"
            )
        if save_masks and chosen.auto:
            notes.append(f"no masks are saved: {chosen.name} finds the regions itself")
        masks = save_masks and not chosen.auto
        files = Outputs.of(output, len(job.regions), metadata, contact_sheet, masks, preview_every)
        files.check(job, overwrite)
        inputs = read_job(job, chosen)
        if composited(chosen, inputs):
            asked = run.settings(None, composite=composite)
            taken = inputs.squared(min(inputs.photo.size)) if asked.fit == "square" else inputs
            check_parts(taken.masks, asked)
        read = time.perf_counter()

        backbone = run.load() if METHODS[spec.method].needs_backbone else None
        if compiled and backbone is not None:
            backbone.compile()
        chosen = default_method(backbone, spec.method, **options)
        settings = run.settings(backbone, composite=composite)
        loaded = time.perf_counter()

    with progress(quiet) as bar, files.previews(bar) as on_step:
        result = paint(inputs, backbone, chosen, settings, on_step, device=run.place(backbone))
    result.save(output, overwrite, metadata)
    extra = files.write_extras(result)

    seconds = {"import": imported - began, **result.seconds}
    seconds["prepare"] += read - imported
    seconds["load"] += loaded - read
    seconds = {stage: round(took, 3) for stage, took in seconds.items()}
    notes += [*result.notes, *files.failed]
    for text in [] if quiet else notes:
        note(text)
    if as_json:
        report = {key: result.provenance[key] for key in ("settings", "method", "model")}
        report |= {"output": str(output), "seconds": seconds, "peak_memory": bytes_on(run.place(backbone))}
        print(json.dumps({**report, **extra, "notes": notes}))
    elif not quiet:
        stages = ", ".join(f"{stage} {took:.1f} s" for stage, took in seconds.items())
        say((str(output), "bold"), f"  ({stages})")


def _auto(spec: MethodSpec, auto: bool) -> dict[str, bool]:
    """--auto as an option of the method; one that has none is told who has."""
    from ..methods import METHODS, option_names

    able = [name for name, method in METHODS.items() if "auto" in option_names(method)]
    if auto and spec.method not in able:
        raise InputError(
            f"--auto: {spec.method} goes by masks; {' and '.join(able)} find the regions themselves, so add "
            f"--method {able[0]}, or give masks with -r MASK=STYLE"
        )
    return {"auto": True} if auto else {}


def _job(
    photo: Path, texts: list[str], colour_map: Path | None, styles: list[str], style_masks: list[str]
) -> tuple[Job, list[str]]:
    """The job, and notes on colours of the map that nobody claimed."""
    from ..regions.specs import parse_map, parse_region, with_style_masks

    if colour_map is None and styles:
        raise InputError("-s needs --map MAP.png; without a map write -r MASK=STYLE")
    if colour_map is not None and not styles:
        raise InputError(f"--map {colour_map} needs a style per colour: -s '#ff0000=STYLE'")
    regions, notes = [parse_region(text) for text in texts], list[str]()
    if colour_map is not None:
        mapped, notes = parse_map(colour_map, styles, any(region.mask is None for region in regions))
        regions = [*mapped, *regions]
    return Job(photo, tuple(with_style_masks(regions, style_masks))), notes
