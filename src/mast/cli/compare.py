"""mast compare PHOTO -r MASK=STYLE ... --methods mast,styleid,zstar -o SHEET.png"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..files import atomic, check_output, check_outputs
from ..job import InputError, Settings
from .console import loading, note, progress, say
from .given_jobs import JobOptions
from .options import (
    METHOD,
    OUTPUT,
    AsJson,
    Composite,
    MastOptions,
    Overwrite,
    Quiet,
    RunOptions,
    option,
    with_options,
)

if TYPE_CHECKING:
    import torch

    from ..backbone.backbone import Backbone
    from ..methods import Method
    from ..methods.spec import MethodSpec
    from ..pipeline import JobInputs

MARK = "mast-sheet"  # the PNG text by which a sheet is known as one of ours


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


@with_options
def compare(
    jobs: JobOptions,
    methods: Annotated[
        str | None, option(METHOD, "NAMES", "Names with commas between them.", "mast,styleid,zstar")
    ] = None,
    method: Annotated[
        list[str], option(METHOD, "METHOD", "One more, with options: styleid:gamma=0.3; several times.")
    ] = [],  # noqa: B006
    *,
    tuned: MastOptions,
    composite: Composite = None,
    output: Annotated[
        Path, option(OUTPUT, "FILE", "The sheet; SHEET.METHOD.png beside it.", names=("-o", "--output"))
    ] = Path("compare.png"),
    height: Annotated[int, option(OUTPUT, "PIXELS", "Of each picture on the sheet.", min=32, max=2048)] = 256,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    run: RunOptions,
) -> None:
    """Runs several methods on one job and draws them side by side, with enlarged views of every region.

    Pictures of an earlier run that would come out the same are used again, and its sheet is drawn anew.
    """
    with loading("the methods", quiet):
        from ..methods import METHODS
        from ..pipeline import read_job, stylize

        title, job = jobs.only("the sheet shows one photo")
        run.check(composite=composite)
        specs = _specs(methods, method)
        record_path = output.with_suffix(".json")
        paths = {one.name: output.with_suffix(f".{one.name}.png") for one in specs}
        records = [path.with_suffix(".json") for path in paths.values()]
        check_outputs([output, record_path, *paths.values(), *records], jobs.inputs, overwrite=True)
        check_output(output, overwrite or _is_ours(output))
        before = _seconds_before(record_path, overwrite)
        plain = [_method(one, None, tuned) for one in specs]
        inputs = read_job(job, next((one for one in plain if not one.auto), plain[0]))

        needed = any(METHODS[one.method].needs_backbone for one in specs)
        backbone = run.load() if needed else None
        settings = run.settings(backbone, composite=composite)
        device = run.place(backbone)
        entries = [Compared(one.name, _method(one, backbone, tuned), paths[one.name]) for one in specs]
        for entry in entries:
            size = _check(entry, inputs, backbone, device, settings, overwrite)
            entry.seconds = before.get(entry.name, {}) if entry.made else {}
    for i, entry in enumerate(entries):
        if not quiet:
            again = ", made before" if entry.made else ""
            say((entry.name, "bold"), f" ({i + 1} of {len(entries)}{again})")
        if entry.made:
            continue
        with progress(quiet) as bar:
            result = stylize(inputs, backbone, entry.method, settings, bar, device=device)
        result.save(entry.path, overwrite=True)  # what is there was checked above
        entry.seconds = result.seconds
        _write(record_path, output, entries)
        for text in [] if quiet else result.notes:
            note(text)
    model = [] if backbone is None else [Path(backbone.name).name, f"{settings.steps} steps"]
    how = ", ".join([*model, f"{size} px"])
    shown = inputs.squared(size) if settings.fit == "square" else inputs
    _draw(shown, entries, f"{title}: {how}", height, output)
    report = _write(record_path, output, entries)
    print(json.dumps(report) if as_json else output)


def _specs(names: str | None, others: list[str]) -> list[MethodSpec]:
    """The methods asked for, tried on; an unknown one is refused with the nearest name."""
    from ..methods.spec import parse_method

    if names is None and not others:
        names = "mast,styleid,zstar"
    texts = [*([] if names is None else [text.strip() for text in names.split(",")]), *others]
    found: dict[str, MethodSpec] = {}
    for text in texts:
        one = parse_method(text)
        if one.name in found:
            raise InputError(f"{one.name} is given twice; name one of them: --method NAME={text}")
        found[one.name] = one
    return list(found.values())


def _method(one: MethodSpec, backbone: Backbone | None, tuned: MastOptions) -> Method:
    from ..methods import METHODS, Mast
    from ..pipeline import default_method

    shared = tuned.given if issubclass(METHODS[one.method], Mast) else {}
    return default_method(backbone, one.method, **{**shared, **one.options})


def _check(
    entry: Compared,
    job: JobInputs,
    backbone: Backbone | None,
    device: torch.device,
    settings: Settings,
    overwrite: bool,
) -> int:
    """Refuses, before the first run, what the last one would stumble over; finds what is there already.
    Returns the size it paints at.
    """
    from ..images.writing import portable
    from ..pipeline import engine_of, ready_to_paint
    from ..pipeline.provenance import provenance

    inputs, engine = job.for_method(entry.method), engine_of(entry.method, backbone, device)
    ready = ready_to_paint(inputs, engine, settings)
    if entry.path.exists():
        record = provenance(ready.inputs, engine.method, engine.record(), ready.settings)
        now = portable(record, entry.path.parent)
        entry.made = json.loads(json.dumps(now)) == _provenance(entry.path)
    if not entry.made:
        check_output(entry.path, overwrite)
        check_output(entry.path.with_suffix(".json"), overwrite, (".json",))
    assert isinstance(ready.settings.size, int)
    return ready.settings.size


def _provenance(path: Path) -> dict[str, Any] | None:
    from ..images import read_provenance

    try:
        return read_provenance(path)
    except InputError:  # some other picture
        return None


# --------------------------------------------------------------------------------------- sheet and record


def _is_ours(sheet: Path) -> bool:
    """Whether a file is a sheet that this command drew, which it may draw anew."""
    from PIL import Image

    try:
        with Image.open(sheet) as opened:
            return opened.format == "PNG" and MARK in opened.info
    except (OSError, ValueError, SyntaxError):
        return False


def _draw(inputs: JobInputs, entries: list[Compared], title: str, height: int, output: Path) -> None:
    from PIL.PngImagePlugin import PngInfo

    from ..images import read_rgb
    from ..sheets import comparison

    styles = [(style.picture, style.name) for style in inputs.styles]
    pictures = [(read_rgb(entry.path, "picture"), entry.name, entry.caption) for entry in entries]
    mark = PngInfo()
    mark.add_text(MARK, "mast compare")
    with atomic(output) as part:
        sheet = comparison(inputs.photo, inputs.masks.numpy(), styles, pictures, title, height)
        sheet.save(part, format="PNG", pnginfo=mark)


def _seconds_before(path: Path, overwrite: bool) -> dict[str, dict[str, float]]:
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
