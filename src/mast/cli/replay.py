"""mast replay OUT.png: make a picture again from its own record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image

from ..images import check_output, read_provenance, read_rgb
from ..job import InputError, Settings
from .app import app, progress, say


@app.command()
def replay(
    picture: Annotated[Path, typer.Argument(help="A picture mast made (or its .json).")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also keep the new picture.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Reproduces a picture from its own metadata and says whether it is bit-equal."""
    record = read_provenance(picture)
    if output is not None:
        check_output(output, overwrite)
    from ..backbone.load import load
    from ..pipeline import stylize
    from ..provenance import job_from, method_from, same_pixels

    job = job_from(record, picture.parent)
    png = picture if picture.suffix.lower() != ".json" else picture.with_suffix(".png")
    before: Image.Image | None = read_rgb(png, "picture") if png.exists() else None
    backbone = load(record["model"]["name"], record["device"], record["dtype"], record["prediction_type"])
    if backbone.fingerprint != record["model"]["fingerprint"]:
        raise InputError(
            f"{record['model']['name']}: its weights are not those the picture was made with "
            f"(fingerprint {backbone.fingerprint}, recorded {record['model']['fingerprint']}); load the old model"
        )
    with progress(quiet) as bar:
        result = stylize(job, backbone, method_from(record), Settings(**record["settings"]), bar)
    if output is not None:
        result.save(output, overwrite)
    if before is None:
        raise InputError(f"{png}: the picture itself is not there, so there is nothing to compare with")
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
        say(f"{png}: [bold green]bit-equal[/]")
    else:
        say(
            f"{png}: [bold yellow]not equal[/]; {share:.1%} of the pixels differ, by at most {largest} of 255"
        )
    if not equal:
        raise typer.Exit(1)
