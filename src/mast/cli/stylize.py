"""mast stylize PHOTO -r MASK=STYLE ... -o OUT.png"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image
from rich.markup import escape

from ..backbone.device import resolve_device
from ..bench.variants import parse_variant
from ..files import atomic, check_output
from ..images import describe, read_mask, read_rgb, save_png, split_colour
from ..job import PRESETS, InputError, Job, Result, Settings
from ..job import Progress as Step
from ..methods import Method, make
from ..methods.feedforward.network import FeedForward
from ..pipeline.compose import apart, check_parts
from ..regions.masks import read_masks, without_masks
from ..regions.specs import parse_map, parse_region, with_style_masks
from ..sheets import contact_row, sheet
from .app import app, progress, say


@app.command()
def stylize(
    photo: Annotated[Path, typer.Argument(help="The photo to repaint.")],
    region: Annotated[
        list[str], typer.Option("-r", "--region", help="MASK=STYLE, MASK=STYLE@0.7, or =STYLE.")
    ] = [],  # noqa: B006
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the picture goes (.png).")] = Path(
        "mast.png"
    ),
    colour_map: Annotated[
        Path | None, typer.Option("--map", help="A colour-coded map instead of masks.")
    ] = None,
    colour_style: Annotated[
        list[str], typer.Option("-s", "--style", help="'#RRGGBB=STYLE[@0.7]', with --map.")
    ] = [],  # noqa: B006
    style_mask: Annotated[
        list[str], typer.Option(help="N=FILE: only this part of region N's painting counts.")
    ] = [],  # noqa: B006
    model: Annotated[str, typer.Option(help="preview, a hub id, a folder or a checkpoint file.")] = "preview",
    method: Annotated[
        str, typer.Option(help="A name from `mast methods`, with options as styleid:gamma=0.3.")
    ] = "mast",
    composite: Annotated[
        str | None,
        typer.Option(help="How one-style methods join their regions: hard, alpha, poisson or laplacian."),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="The method finds the regions itself (stylegallery, stylemixer).")
    ] = False,
    preset: Annotated[
        str | None, typer.Option(help="paper (50 steps) or fast; the model's own if not given.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Timesteps of the schedule.")] = None,
    inversion: Annotated[str | None, typer.Option(help="plain (paper) or refined.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Longer side, in pixels, at which the model works.")
    ] = None,
    fit: Annotated[str | None, typer.Option(help="resize or pad to the model's stride.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Outside all regions: reconstruct (paper) or exact pixels.")
    ] = None,
    lam: Annotated[
        float | None, typer.Option(help="Lambda, content anchoring of the query (paper: 0.2).")
    ] = None,
    pi: Annotated[float | None, typer.Option(help="pi*, style mass in a full region (paper: 0.9).")] = None,
    r: Annotated[
        float | None, typer.Option(help="Frequency scale of the detail filter (paper: 0.3).")
    ] = None,
    tau: Annotated[str | None, typer.Option(help="A,B,C coefficients, or one fixed factor.")] = None,
    lama: Annotated[bool, typer.Option("--lama/--no-lama", help="Mass allocation.")] = True,
    sts: Annotated[bool, typer.Option("--sts/--no-sts", help="Sharpness.")] = True,
    ddi: Annotated[bool, typer.Option("--ddi/--no-ddi", help="Detail.")] = True,
    features: Annotated[str | None, typer.Option(help="auto, memory or replay.")] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep and use inversions on disk.")
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, float16, bfloat16.")] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="torch.compile the U-Net: for many pictures on a GPU.")
    ] = False,
    prediction_type: Annotated[
        str | None, typer.Option(help="Overrides the model's scheduler config.")
    ] = None,
    preview_every: Annotated[int, typer.Option(min=0, help="Write OUT.preview.png every so many steps.")] = 0,
    save_masks: Annotated[bool, typer.Option("--save-masks", help="Also write the masks as used.")] = False,
    contact_sheet: Annotated[bool, typer.Option("--contact-sheet", help="Also write OUT.sheet.png.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Repaints every region of PHOTO in its own style."""
    began = time.perf_counter() - time.process_time()  # importing torch is the work done so far
    regions, notes = _regions(region, colour_map, colour_style)
    given = parse_variant(method)
    if not regions and given.method != "reconstruct":
        raise InputError(
            "no region given; add -r MASK=STYLE (or =STYLE for the whole photo), or use --method reconstruct"
        )
    job = Job(photo, tuple(with_style_masks(regions, style_mask)))
    switches = {name: False for name, on in (("lama", lama), ("sts", sts), ("ddi", ddi)) if not on}
    switches |= {"auto": True} if auto else {}
    options = {**given.options, **_given(lam=lam, pi=pi, r=r, tau=parse_tau(tau)), **switches}
    changes: dict[str, Any] = {
        "steps": steps,
        "inversion": inversion,
        "size": size,
        "fit": fit,
        "keep_unassigned": keep,
        "composite": composite,
    }
    changes |= {"features": features, "cache": None if cache else False}
    outputs = _outputs(output, job, save_masks, contact_sheet, preview_every > 0, overwrite)
    chosen = _check_settings(preset, changes, given.method, options)

    from ..pipeline.stylize import bytes_on, default_method, default_settings
    from ..pipeline.stylize import stylize as run

    imported = time.perf_counter()
    _check_pictures(job, chosen, Settings().with_(**changes))
    wanted = {**PRESETS.get(preset or "", {}), **_given(**changes)}
    where = resolve_device(device)
    backbone: Any = model
    if isinstance(chosen, FeedForward):
        chosen.ready(where)
        settings = Settings().with_(**wanted)
    else:
        from ..backbone.load import load

        backbone = load(model, device, dtype, prediction_type)
        if compiled:
            backbone.compile()
        settings = default_settings(backbone, **wanted)
        chosen = default_method(backbone, given.method, **options)
    loaded = time.perf_counter()
    preview = outputs.get("preview")
    try:
        with progress(quiet) as bar:

            def on_step(step: Step) -> None:
                bar(step)
                if preview is not None and step.x0 is not None and step.done % preview_every == 0:
                    save_png(Image.fromarray(step.x0()), preview)

            result = run(job, backbone, chosen, settings, on_step)
    finally:
        if preview is not None:
            preview.unlink(missing_ok=True)
    result.seconds = {
        "import": round(imported - began, 3),
        **result.seconds,
        "load": round(loaded - imported, 3),
    }
    result.save(output, overwrite)
    extra = _extras(without_masks(job) if auto else job, result, outputs, save_masks, contact_sheet)
    for note in [] if quiet else [*notes, *result.notes]:
        say(f"[dim]note:[/] {escape(note)}")
    if as_json:
        report = {key: result.provenance[key] for key in ("settings", "method", "model")}
        report |= {"output": str(output), "seconds": result.seconds, "peak_memory": bytes_on(where)}
        print(json.dumps({**report, **extra, "notes": [*notes, *result.notes]}))
    elif not quiet:
        stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in result.seconds.items())
        say(f"[bold]{escape(str(output))}[/]  ({stages})")


def _regions(texts: list[str], colour_map: Path | None, styles: list[str]) -> tuple[list[Any], list[str]]:
    if colour_map is None and styles:
        raise InputError("-s needs --map MAP.png; without a map write -r MASK=STYLE")
    if colour_map is None:
        return [parse_region(text) for text in texts], []
    if not styles:
        raise InputError(f"--map {colour_map} needs a style per colour: -s '#ff0000=STYLE'")
    others = [parse_region(text) for text in texts]
    regions, notes = parse_map(colour_map, styles, any(region.mask is None for region in others))
    return [*regions, *others], notes


def parse_tau(text: str | None) -> float | tuple[float, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--tau {text}: give one factor (1.5) or three coefficients (A,B,C)") from error
    if len(values) not in (1, 3):
        raise InputError(
            f"--tau {text}: {len(values)} numbers; give one factor (1.5) or three coefficients (A,B,C)"
        )
    return values[0] if len(values) == 1 else values


def _given(**options: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _check_settings(
    preset: str | None, changes: dict[str, Any], method: str, options: dict[str, Any]
) -> Method:
    """Settings and options are tried on before anything is loaded."""
    if preset is not None and preset not in PRESETS:
        raise InputError(f"preset {preset!r} is not known; choose one of {', '.join(PRESETS)}")
    Settings().with_(**changes)
    return make(method, **options)


def _check_pictures(job: Job, method: Method, settings: Settings) -> None:
    """Bad input is refused before a model is loaded."""
    size = read_rgb(job.content, "photo").size
    masks = read_masks(without_masks(job) if method.auto else job, size, [])
    if apart(method):
        check_parts(masks, settings)
    for region in job.regions:
        read_rgb(region.style, "style image")
        if region.style_mask is not None:
            read_mask(region.style_mask, "style mask")


def _outputs(
    output: Path, job: Job, masks: bool, contact: bool, preview: bool, overwrite: bool
) -> dict[str, Path]:
    """Every file that will be written, checked before any work; no input is ever written over."""
    names = {"picture": output, "record": output.with_suffix(".json")}
    names |= {"sheet": output.with_suffix(".sheet.png")} if contact else {}
    names |= {"preview": output.with_suffix(".preview.png")} if preview else {}
    for i in range(len(job.regions) if masks else 0):
        names[f"mask{i + 1}"] = output.with_suffix(f".mask{i + 1}.png")
    given = [job.content, *(file for r in job.regions for file in (r.style, r.mask, r.style_mask) if file)]
    inputs = {split_colour(str(file))[0].resolve() for file in given}
    for name, path in names.items():
        if path.resolve() in inputs:
            raise InputError(f"{path}: this is one of the inputs; choose another name for the output")
        check_output(path, overwrite, (".json",) if name == "record" else (".png",))
    return names


def _extras(job: Job, result: Result, outputs: dict[str, Path], masks: bool, contact: bool) -> dict[str, Any]:
    if not masks and not contact:
        return {}
    extra: dict[str, Any] = {}
    photo = read_rgb(job.content, "photo")
    full = read_masks(job, photo.size, []).numpy()
    if masks:
        paths = [outputs[f"mask{i + 1}"] for i in range(len(full))]
        for mask, path in zip(full, paths, strict=True):
            save_png(Image.fromarray((mask * 255).round().astype(np.uint8)), path)
        extra["masks"] = [str(path) for path in paths]
    if contact:
        styles = [
            (read_rgb(region.style), Path(describe(region.style, "style")).stem) for region in job.regions
        ]
        row = contact_row(photo, full, styles, result.image)
        with atomic(outputs["sheet"]) as part:
            sheet([row]).save(part, format="PNG")
        extra["contact_sheet"] = str(outputs["sheet"])
    return extra
