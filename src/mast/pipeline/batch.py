"""Many photos painted in one way: the model is loaded once, pictures that are finished are known by their
records, and what fails is told at the end.
"""

from __future__ import annotations

import glob
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from ..backbone.backbone import Backbone
from ..files import check_outputs, shown
from ..images import PICTURES
from ..job import Cancelled, InputError, Job, OnStep, Result, Settings
from ..methods import Method
from ..regions.sources import pictures
from .inputs import JobInputs, read_job
from .provenance import NOTED, load_record, provenance
from .run import Engine
from .stylize import engine_of, ready_to_paint, stylize


@dataclass(frozen=True)
class BatchItem:
    """A photo and the picture that is made of it."""

    photo: Path
    output: Path


@dataclass(frozen=True)
class BatchOutcome:
    """What became of a photo. kept: the very picture was there already. reason: why it failed, and bad_input
    whether that is the fault of what was given; result: of one that was made.
    """

    item: BatchItem
    state: Literal["made", "kept", "failed"]
    reason: str = ""
    bad_input: bool = False
    seconds: float = 0.0
    result: Result | None = field(default=None, repr=False)


def is_many(given: str | os.PathLike[str]) -> bool:
    """Whether a name stands for several photos: a folder, or a pattern such as 'photos/*.jpg'."""
    text = os.fspath(given)
    if os.path.isdir(text) or os.path.lexists(text) or not glob.has_magic(text):
        return os.path.isdir(text)
    return "*" in text or "?" in text or bool(glob.glob(text))  # names of files do hold brackets


def photos_in(given: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The photos that folders, patterns ('photos/*.jpg', 'photos/**/*.jpg') and names stand for, each once.

    A single name is taken as it is, whether it is there or not: its own failure is told with the others.
    """
    found: dict[str, Path] = {}
    for one in given:
        text = os.fspath(one)
        if os.path.isdir(text):
            inside = pictures(Path(text))
        elif is_many(text):
            matches = sorted(map(Path, glob.glob(text, recursive=True)))
            inside = [path for path in matches if path.suffix.lower() in PICTURES and path.is_file()]
        else:
            inside = [Path(text)]
        if not inside:
            raise InputError(f"{shown(text)}: no photo there; give a folder with photos, or 'FOLDER/*.jpg'")
        for path in inside:
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def batch_items(photos: Sequence[Path], folder: Path, suffix: str = ".png") -> list[BatchItem]:
    """A picture's name for every photo: the photo's, in another folder. Of photos that differ in the kind of
    file only, each has its kind in its name: a.jpg and a.png become a-jpg.png and a-png.png.
    """
    for photo in photos:
        if os.path.realpath(photo.parent) == os.path.realpath(folder):
            raise InputError(f"{shown(folder)}: holds {shown(photo.name)} itself; give a folder of its own")
    stems: dict[str, list[Path]] = {}
    for photo in photos:
        stems.setdefault(photo.stem.casefold(), []).append(photo)
    items: list[BatchItem] = []
    taken: dict[str, Path] = {}
    for photo in photos:
        alone = len(stems[photo.stem.casefold()]) == 1
        name = photo.stem if alone else f"{photo.stem}-{photo.suffix[1:].lower()}"
        other = taken.setdefault(name.casefold(), photo)
        if other != photo:
            raise InputError(
                f"{shown(photo)}: its picture would be called {name}{suffix}, as that of {shown(other)}; "
                "rename one of them, or paint their folders one by one"
            )
        items.append(BatchItem(photo, folder / f"{name}{suffix}"))
    return items


def stylize_batch(
    items: Sequence[BatchItem],
    job_of: Callable[[BatchItem], Job],
    backbone: Backbone | None,
    method: Method,
    settings: Settings,
    on_step: OnStep | None = None,
    device: torch.device | None = None,
    overwrite: bool = False,
) -> Iterator[BatchOutcome]:
    """Paints photo after photo, and tells of each what became of it. Nothing of one that fails is written.

    job_of: what to paint of a photo; asked when its turn comes. A picture that is there and was made of the
    same files in the same way is kept, so that the same call goes on where another one was stopped; one that
    was made otherwise is an error, or, with overwrite, made anew. What is raised by on_step, and a disk that
    is full, ends the batch.
    """
    engine = engine_of(method, backbone, device)
    for item in items:
        began = time.perf_counter()
        try:
            inputs = _inputs(item, job_of(item), engine)
            if _is_finished(item, inputs, engine, settings, overwrite):
                yield BatchOutcome(item, "kept")
                continue
            result = stylize(inputs, backbone, engine.method, settings, on_step, device=device)
            result.save(item.output, overwrite or _is_orphan(item.output))
        except (Cancelled, OSError):
            raise
        except Exception as error:
            bad = isinstance(error, InputError)
            reason = str(error) if bad else f"{type(error).__name__}: {error}"
            yield BatchOutcome(item, "failed", reason, bad)
            continue
        yield BatchOutcome(item, "made", seconds=round(time.perf_counter() - began, 3), result=result)


def _inputs(item: BatchItem, job: Job, engine: Engine) -> JobInputs:
    read = [job.content, *(f for r in job.regions for f in (r.style, r.mask, r.style_mask))]
    check_outputs([item.output, item.output.with_suffix(".json")], read, overwrite=True)
    return read_job(job, engine.method)


def _is_finished(
    item: BatchItem, inputs: JobInputs, engine: Engine, settings: Settings, overwrite: bool
) -> bool:
    """Whether the picture is there; one that was made otherwise is refused, unless it may be replaced."""
    ready = ready_to_paint(inputs, engine, settings)
    if not os.path.lexists(item.output):
        return False
    wanted = decisive(provenance(inputs, engine.method, engine.record(), ready.settings))
    try:
        there = decisive(load_record(item.output))
        differ = [key for key in {**there, **wanted} if there.get(key) != wanted.get(key)]
    except InputError:
        differ = ["no record that can be read"]
    if not differ:
        return True
    if not overwrite:
        raise InputError(
            f"{shown(item.output)}: is there and was made otherwise ({', '.join(differ)}); give another "
            "folder, or allow overwriting (--overwrite)"
        )
    return False


def decisive(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that decides the picture: what files hold counts, not where they lie."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items() if key != "path"}
        return [walk(inner) for inner in value] if isinstance(value, list) else value

    found = walk(json.loads(json.dumps(record)))  # as it reads when it was written
    found["model"] = {key: value for key, value in found["model"].items() if key != "name"}
    return {key: value for key, value in found.items() if key not in NOTED}


def _is_orphan(output: Path) -> bool:
    """Whether there is a record without its picture: the process was killed between the two."""
    sidecar = output.with_suffix(".json")
    if os.path.lexists(output) or not sidecar.is_file():
        return False
    try:
        load_record(sidecar)
    except InputError:
        return False
    return True
