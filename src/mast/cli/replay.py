"""mast replay OUT.png: make a picture again from its own record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape

from ..files import check_output
from ..images import read_provenance, read_rgb
from ..job import InputError, Settings
from .app import app, progress, say


@app.command()
def replay(
    picture: Annotated[Path, typer.Argument(help="A picture mast made (or its .json).")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also keep the new picture.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the verdict.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Reproduces a picture from its own metadata and says whether it is bit-equal."""
    record = read_provenance(picture)
    if output is not None:
        check_output(output, overwrite)
        check_output(output.with_suffix(".json"), overwrite, (".json",))
    from ..backbone.device import resolve_device
    from ..backbone.load import load
    from ..methods.feedforward.network import FeedForward
    from ..pipeline.provenance import job_from, method_from, same_pixels
    from ..pipeline.stylize import stylize

    try:
        job, method = job_from(record, picture.parent), method_from(record)
        settings = Settings(**record["settings"])
        model, fingerprint = record["model"]["name"], record["model"]["fingerprint"]
        place = record["device"], record["dtype"], record["prediction_type"]
        torch.set_num_threads(int(record["threads"]))  # sums are split among threads
    except (KeyError, TypeError) as error:
        made = f"mast {record.get('mast', 'of another version')}"
        raise InputError(
            f"{picture}: its record is not of this version ({error}); replay it with {made}"
        ) from error
    png = picture if picture.suffix.lower() != ".json" else picture.with_suffix(".png")
    if not png.exists():
        raise InputError(f"{png}: no such file, so there is nothing to compare with; put the picture back")
    before = read_rgb(png, "picture")
    backbone: Any = None
    if isinstance(method, FeedForward):
        method.ready(resolve_device(record["device"]))
        weights = method.fingerprint
    else:
        backbone = load(model, *place)
        if record.get("compiled"):
            backbone.compile()
        weights = backbone.fingerprint
    if weights != fingerprint:
        raise InputError(
            f"{model or method.name}: its weights are not those the picture was made with (fingerprint "
            f"{weights}, recorded {fingerprint}); put the old model back"
        )
    with progress(quiet) as bar:
        result = stylize(job, backbone, method, settings, bar)
    if output is not None:
        result.save(output, overwrite)
    equal, largest, share = same_pixels(before, result.image)
    if as_json:
        print(
            json.dumps(
                {
                    "equal": equal,
                    "largest_difference": largest,
                    "pixels_differing": share,
                    "seconds": result.seconds,
                }
            )
        )
    elif equal:
        say(f"{escape(str(png))}: [bold green]bit-equal[/]")
    else:
        differ = f"{share:.1%} of the pixels differ, by at most {largest} of 255"
        say(f"{escape(str(png))}: [bold yellow]not equal[/]; {differ}")
    if not equal:
        raise typer.Exit(1)
