"""mast compare PHOTO -r MASK=STYLE ... --methods mast,styleid,zstar -o SHEET.png"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from PIL import Image
from rich.markup import escape

from ..files import atomic, check_output
from ..images import describe, read_provenance, read_rgb, save_png
from ..job import InputError, Job, Settings
from ..sheets import comparison
from .app import app, progress, say
from .jobs import JobOptions
from .requests import with_request

if TYPE_CHECKING:
    from ..backbone.backbone import Backbone
    from ..bench.variants import Variant
    from ..methods import Method


@dataclass
class Compared:
    """One picture of the sheet. made: it is there already, made the very way it would be made now."""

    name: str
    method: Method
    path: Path
    made: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def caption(self) -> str:
        """Seconds by what is the method's own; inversions are found or paid by whoever comes first."""
        if not self.seconds:
            return ""
        inverting = sum(self.seconds.get(stage, 0.0) for stage in ("encode", "invert"))
        rest = sum(self.seconds.values()) - inverting - self.seconds.get("load", 0.0)
        return f"{rest:.1f} s" + (f" + {inverting:.1f} s inverting" if inverting >= 0.1 else "")


@app.command()
@with_request
def compare(
    request: JobOptions,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between them; mast,styleid,zstar if none is given.")
    ] = None,
    method: Annotated[
        list[str], typer.Option(help="One more, with options: styleid:gamma=0.3; several times.")
    ] = [],  # noqa: B006
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The sheet; SHEET.METHOD.png beside it.")
    ] = Path("compare.png"),
    composite: Annotated[
        str | None,
        typer.Option(help="How single-style methods are joined: hard, alpha, poisson, laplacian."),
    ] = None,
    inversion: Annotated[str | None, typer.Option(help="plain (paper) or refined.")] = None,
    fit: Annotated[str | None, typer.Option(help="resize or pad to the model's stride.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Outside all regions: reconstruct (paper) or exact pixels.")
    ] = None,
    height: Annotated[int, typer.Option(min=32, max=2048, help="Of each picture on the sheet.")] = 256,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Runs several methods on one job and draws them side by side, with enlarged views of every region.

    Pictures of an earlier run that would come out the same are used again.
    """
    if len(request.jobs) != 1:
        raise InputError(f"the sheet shows one photo; {len(request.jobs)} jobs were given, choose one")
    [(title, job)] = request.jobs
    changes = {"composite": composite, "inversion": inversion, "fit": fit, "keep_unassigned": keep}
    Settings().with_(**changes)
    variants = _variants(methods, method)
    record_path = output.with_suffix(".json")
    paths = {one.name: output.with_suffix(f".{one.name}.png") for one in variants}
    check_output(output, request.overwrite)
    before = _record(record_path, request.overwrite)
    taken = {path.resolve() for path in request.inputs}
    for path in (output, *paths.values()):
        if path.resolve() in taken:
            raise InputError(f"{path}: this is one of the inputs; choose another name for the sheet")
    request.check()

    from ..pipeline.stylize import stylize

    backbone, settings = request.load()
    settings = settings.with_(**changes)
    entries = [Compared(one.name, _method(one, backbone, request), paths[one.name]) for one in variants]
    _check(entries, job, backbone, settings, request.overwrite)
    for entry in entries:
        entry.seconds = before.get(entry.name, {}) if entry.made else {}
    for i, entry in enumerate(entries):
        if not request.quiet:
            again = ", made before" if entry.made else ""
            say(f"[bold]{escape(entry.name)}[/] ({i + 1} of {len(entries)}{again})")
        if entry.made:
            continue
        with progress(request.quiet) as bar:
            result = stylize(job, backbone, entry.method, settings, bar)
        result.save(entry.path, overwrite=True)  # what is there was checked above
        entry.seconds = result.seconds
        _write(record_path, output, entries)
        for note in [] if request.quiet else result.notes:
            say(f"[dim]note:[/] {escape(note)}")
    how = f"{Path(backbone.name).name}, {settings.steps} steps, {settings.size} px"
    save_png(_draw(job, entries, f"{title}: {how}", height), output)
    report = _write(record_path, output, entries)
    print(json.dumps(report) if as_json else output)


def _variants(names: str | None, others: list[str]) -> list[Variant]:
    """The methods asked for, tried on; an unknown one is refused with the nearest name."""
    from ..bench.variants import parse_variant

    if names is None and not others:
        names = "mast,styleid,zstar"
    texts = [*([] if names is None else [text.strip() for text in names.split(",")]), *others]
    found: dict[str, Variant] = {}
    for text in texts:
        one = parse_variant(text)
        if one.name in found:
            raise InputError(f"{one.name} is given twice; name one of them: --method NAME={text}")
        found[one.name] = one
    return list(found.values())


def _method(one: Variant, backbone: Backbone, request: JobOptions) -> Method:
    from ..methods import METHODS, Mast
    from ..pipeline.stylize import default_method

    shared = request.options if issubclass(METHODS[one.method], Mast) else {}
    return default_method(backbone, one.method, **{**shared, **one.options})


def _check(
    entries: list[Compared], job: Job, backbone: Backbone, settings: Settings, overwrite: bool
) -> None:
    """Refuses, before the first run, what the last one would stumble over; finds what is there already."""
    from ..methods.feedforward.network import FeedForward
    from ..pipeline.compose import apart, check_parts
    from ..pipeline.provenance import of_model, of_networks, provenance
    from ..regions.masks import read_masks

    photo = read_rgb(job.content, "photo")
    masks = read_masks(job, photo.size, [])
    for entry in entries:
        model = of_model(backbone)
        if isinstance(entry.method, FeedForward):
            entry.method.ready(backbone.device)
            model = of_networks(entry.method, backbone.device)
        if apart(entry.method):
            check_parts(masks, settings)
        if entry.path.exists():
            now = provenance(job, model, entry.method, settings, photo, masks)
            entry.made = _facts(json.loads(json.dumps(now))) == _facts(_provenance(entry.path))
        if not entry.made:
            check_output(entry.path, overwrite)
            check_output(entry.path.with_suffix(".json"), overwrite, (".json",))


def _provenance(path: Path) -> dict[str, Any] | None:
    try:
        return read_provenance(path)
    except InputError:  # some other picture
        return None


def _facts(record: dict[str, Any] | None) -> dict[str, Any] | None:
    """A record without what follows from the rest of it: how much of the photo a region covers depends on
    files whose hashes are there, and a method that finds its regions itself does not go by them.
    """
    if record is None:
        return None
    regions = [{k: v for k, v in region.items() if k != "coverage"} for region in record["regions"]]
    return {**record, "regions": regions}


# --------------------------------------------------------------------------------------- sheet and record


def _draw(job: Job, entries: list[Compared], title: str, height: int) -> Image.Image:
    from ..regions.masks import read_masks

    photo = read_rgb(job.content, "photo")
    masks = read_masks(job, photo.size, []).numpy()
    styles = [(read_rgb(region.style), Path(describe(region.style, "style")).stem) for region in job.regions]
    pictures = [(read_rgb(entry.path, "picture"), entry.name, entry.caption) for entry in entries]
    return comparison(photo, masks, styles, pictures, title, height)


def _record(path: Path, overwrite: bool) -> dict[str, dict[str, float]]:
    """Seconds by method from an earlier sheet's record; a file that is no such record is not written over."""
    try:
        found = json.loads(path.read_text())
        return {entry["method"]: entry["seconds"] for entry in found["compared"]}
    except (OSError, ValueError, KeyError, TypeError):
        check_output(path, overwrite, (".json",))
        return {}


def _write(path: Path, sheet: Path, entries: list[Compared]) -> dict[str, Any]:
    """The sheet's record, also while it is not yet drawn, so that seconds outlive a run that is stopped."""
    compared = [
        {"method": e.name, "picture": str(e.path), "seconds": e.seconds, "made_before": e.made}
        for e in entries
    ]
    record = {"sheet": str(sheet), "compared": compared}
    with atomic(path) as part:
        part.write_text(json.dumps(record, indent=1) + "\n")
    return record
