"""mast replay OUT.png: make a picture again from its own record."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ..files import check_output, check_outputs
from ..job import InputError
from .console import loading, progress, say
from .given_jobs import files_of
from .options import OUTPUT, AsJson, Overwrite, Quiet, flag, option


def replay(
    picture: Annotated[Path, typer.Argument(help="A picture mast made (or its .json).")],
    output: Annotated[
        Path | None, option(OUTPUT, "FILE", "Also keep the new picture.", names=("-o", "--output"))
    ] = None,
    allow_download: Annotated[
        bool,
        flag("--allow-download", help="Fetch the model it names from the hub if it is not here."),
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduces a picture from its own metadata and says whether it is bit-equal."""
    with loading("the model", quiet):
        import torch

        from ..backbone.device import resolve_device
        from ..backbone.hub import is_hub_id
        from ..backbone.load import load
        from ..images import OUTPUTS, read_rgb
        from ..pipeline import engine_of, read_job, stylize
        from ..pipeline.provenance import job_from, load_record, method_from, same_pixels, settings_from

        record = load_record(picture)
        job = job_from(record, picture.parent)
        try:
            method, settings = method_from(record), settings_from(record)
        except InputError as error:
            made = f"mast {record.get('mast', 'of another version')}"
            raise InputError(f"{picture}: {error}; replay it with {made}") from error
        model, fingerprint = record["model"]["name"], record["model"]["fingerprint"]
        painted = _picture(picture)
        before = read_rgb(painted, "picture")
        if output is not None:
            read = [picture, painted, painted.with_suffix(".json"), *files_of(job)]
            check_output(output, overwrite, OUTPUTS)
            check_outputs([output, output.with_suffix(".json")], read, overwrite)
        inputs = read_job(job, method)

        torch.set_num_threads(record["threads"])  # sums are split among threads
        backbone = None
        if method.needs_backbone:
            name = _model(model or "preview", picture.parent)
            place = record["device"], record["dtype"], record.get("prediction_type")
            try:
                backbone = load(name, *place, allow_download=allow_download)
            except InputError as error:
                asked = allow_download or not is_hub_id(name)
                raise error if asked else InputError(f"{error}; or add --allow-download") from error
            if record.get("compiled"):
                backbone.compile()
        device = resolve_device(record["device"])
        weights = engine_of(method, backbone, device).record()["model"]["fingerprint"]
        if weights != fingerprint:
            raise InputError(
                f"{model or method.name}: its weights are not those the picture was made with (fingerprint "
                f"{weights}, recorded {fingerprint}); put the old model back"
            )
    with progress(quiet) as bar:
        result = stylize(inputs, backbone, method, settings, bar, device=device)
    if output is not None:
        result.save(output, overwrite)
    with TemporaryDirectory() as folder:  # a JPEG loses what the first one lost
        again = Path(folder, f"again{painted.suffix}")
        result.save(again, metadata=False)
        equal, largest, share = same_pixels(before, read_rgb(again))
    if as_json:
        verdict = {"equal": equal, "largest_difference": largest, "pixels_differing": share}
        print(json.dumps({**verdict, "seconds": result.seconds}))
    elif equal:
        say(f"{painted}: ", ("bit-equal", "bold green"))
    else:
        differ = f"{share:.1%} of the pixels differ, by at most {largest} of 255"
        say(f"{painted}: ", ("not equal", "bold yellow"), f"; {differ}")
    if not equal:
        raise typer.Exit(1)


def _model(name: str, beside: Path) -> str:
    """A model's folder or file is named relative to the picture."""
    near = beside / name
    return str(near) if name != "preview" and near.exists() else name


def _picture(given: Path) -> Path:
    """The picture itself, where its .json was given."""
    from ..images import OUTPUTS

    if given.suffix.lower() != ".json":
        return given
    beside = [given.with_suffix(suffix) for suffix in OUTPUTS]
    for path in beside:
        if path.exists():
            return path
    raise InputError(f"{beside[0]}: no such file, so there is nothing to compare with; put the picture back")
