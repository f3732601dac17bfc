"""mast stylize PHOTO -r MASK=STYLE ... -o OUT.png: parse, read, load, repaint, save; then the extras.

mast stylize JOB.toml takes it all from a job file, and several photos become a batch. Everything that can be
refused is refused before the model is loaded.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from ..job import InputError, Region
from .assign import AnyFinder, InMatchingRegions
from .batch import Machine, paint_batch, planned
from .console import loading, note, progress, say
from .finding import InFoundRegions, RegionFinder, Segmenting
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
    RunOptions,
    flag,
    option,
    with_options,
)
from .options import Region as RegionOption
from .outputs import Outputs
from .wanted import Wanted, given_by_hand


@with_options
def stylize(
    ctx: typer.Context,
    photo: Annotated[
        Path,
        typer.Argument(
            metavar="PHOTO",
            help="The photo to repaint; or a job file; or many: a folder, or 'PATTERN*.jpg' in quotes.",
        ),
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="STYLE",
            help="Paintings; regions are found for them. With --job: more photos.",
            show_default=False,
        ),
    ] = None,
    region: RegionOption = [],  # noqa: B006
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
        int | None,
        option(REGIONS, "N", "Find N regions; their styles with -r STYLE, objects first, background last."),
    ] = None,
    segmenter: Segmenting = "mobile-sam",
    job_file: Annotated[
        Path | None, option(REGIONS, "JOB.toml", "Regions and settings for these photos.", names=("--job",))
    ] = None,
    output: Annotated[
        Path | None,
        option(
            OUTPUT,
            "FILE",
            "The picture: .png, .jpg, .webp or .tif; of several photos the folder.",
            "the job file's, or mast.png",
            names=("-o", "--output"),
        ),
    ] = None,
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
    server: Annotated[
        str | None, option(MACHINE, "URL", "A studio that paints instead: the address that it printed.")
    ] = None,
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
        from ..pipeline.inputs import composited, read_styles
        from ..regions.found import OVERLAY, regions_folder
        from .remote import RemoteStudio

        imported = time.perf_counter()
        regions, notes = _regions(region, colour_map, colour_style, style_mask)
        want = Wanted.of([photo, *(more or [])], job_file, regions, auto, given_by_hand(ctx))
        spec = parse_method(want.method or method)
        switches = {name: False for name, on in (("lama", lama), ("sts", sts), ("ddi", ddi)) if not on}
        options = {**spec.options, **tuned.given, **switches}
        chosen = make(spec.method, **options)
        run, changes = want.run(run), want.settings(run, composite)
        run.check(**changes)
        if want.auto is not None and chosen.auto:
            raise InputError(f"--auto: {chosen.name} finds the regions itself; leave one of the two out")
        if save_masks and chosen.auto:
            notes.append(f"no masks are saved: {chosen.name} finds the regions itself")
        studio = None if server is None else RemoteStudio(server, run)
        plan = planned(want, output) if want.many else None
        if studio is not None and plan is not None:
            raise InputError("--server takes one photo at a time: send them one by one, or leave it out")
        output = output or want.output or Path("mast.png")
        job = want.job(photo if want.photos else None) if plan is None else plan.jobs[0]
        if not job.regions and spec.method != "reconstruct":
            raise InputError(
                "no region given; add -r MASK=STYLE (or rest=STYLE for the whole photo), or paintings after "
                "the photo to have regions found for them, or use --method reconstruct"
            )
        masks = save_masks and not chosen.auto
        files = Outputs.of(output, len(job.regions), metadata, contact_sheet, masks, preview_every)
        if plan is None:
            files.check(job, overwrite)
        else:
            plan.check(files)
        if plan is None and want.auto is None:
            inputs = read_job(job, chosen)
            if composited(chosen, inputs):
                asked = run.settings(None, **changes)
                taken = inputs.squared(min(inputs.photo.size)) if asked.fit == "square" else inputs
                check_parts(taken.masks, asked)
        else:
            read_styles(job)
        read = time.perf_counter()

        backbone = run.load() if METHODS[spec.method].needs_backbone and studio is None else None
        if compiled and backbone is not None:
            backbone.compile()
        chosen = default_method(backbone, spec.method, **options)
        settings = run.settings(backbone, **changes)
        loaded = time.perf_counter()

    finder = RegionFinder(segmenter, quiet)
    found = None if want.auto is None else InFoundRegions(want.auto, finder, overwrite)
    if found is not None and want.styles:
        finder = AnyFinder(segmenter if "segmenter" in want.given else None, quiet)
        found = InMatchingRegions(found.n, finder, overwrite, plan is None, backbone)
    if plan is not None:
        machine = Machine(backbone, chosen, settings, run.place(backbone))
        return paint_batch(plan, found, machine, files, overwrite, quiet, as_json)
    if found is not None:
        job, said = found.job(job, output)
        notes += said
        if not want.styles:
            notes.append(f"the regions it found: {regions_folder(output) / OVERLAY}")
        inputs = read_job(job, chosen)
    with progress(quiet) as bar, files.previews(bar) as on_step:
        if studio is not None:
            wanted = {"preset": run.preset, **run.changes, **changes}
            result = studio.paint(inputs, spec.method, options, wanted, on_step)
        else:
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
        report |= {"assigned": found.report} if isinstance(found, InMatchingRegions) else {}
        print(json.dumps({**report, **extra, "notes": notes}))
    elif not quiet:
        stages = ", ".join(f"{stage} {took:.1f} s" for stage, took in seconds.items())
        say((str(output), "bold"), f"  ({stages})")


def _regions(
    texts: list[str], colour_map: Path | None, styles: list[str], style_masks: list[str]
) -> tuple[list[Region], list[str]]:
    """The regions, and notes on colours of the map that nobody claimed."""
    from ..regions.specs import parse_map, parse_region, with_style_masks

    if colour_map is None and styles:
        raise InputError("-s needs --map MAP.png; without a map write -r MASK=STYLE")
    if colour_map is not None and not styles:
        raise InputError(f"--map {colour_map} needs a style per colour: -s '#ff0000=STYLE'")
    regions, notes = [parse_region(text) for text in texts], list[str]()
    if colour_map is not None:
        mapped, notes = parse_map(colour_map, styles, any(region.mask is None for region in regions))
        regions = [*mapped, *regions]
    return with_style_masks(regions, style_masks), notes
