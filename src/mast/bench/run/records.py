"""What a run folder says about itself: run.json, failed.jsonl, and which pictures are done.

OUT/<variant>/run.json        manifest, method, settings, model: all that decides the pictures
OUT/<variant>/<id>.png        a sample that is done; <id>.json, its record, was there before it
OUT/<variant>/failed.jsonl    {"id", "reason", "attempt"}, a line per failure
OUT/.work/<variant>/<id>/     files while they are written; they take their names by a rename
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...files import atomic
from ...job import InputError, Result
from ...pipeline.provenance import NOTED
from .claims import alone

RUN, FAILED, WORK = "run.json", "failed.jsonl", ".work"

Facts = dict[str, Any]


def is_done(folder: Path, sample: str) -> bool:
    return (folder / f"{sample}.png").exists()


# ------------------------------------------------------------------------------------------------ run.json


def agree(out: Path, facts: Mapping[str, Facts]) -> list[str]:
    """Writes run.json of every variant, or makes sure that the one there says the same. Returns notes.

    All variants are compared before anything is written.
    """
    notes: list[str] = []
    known = {name: _read(out / name) for name in facts}
    for name, wanted in facts.items():
        before = known[name]
        if before is not None:
            _compare(out / name, before, wanted)
            notes += [note for note in _noted(name, before, wanted) if note not in notes]
    for name, wanted in facts.items():
        if known[name] is None:
            _write(out / name, wanted)
    return notes


def _read(folder: Path) -> Facts | None:
    path = folder / RUN
    if not path.exists():
        if any(folder.glob("*.png")):
            raise InputError(
                f"{folder}: holds pictures but no {RUN}, so it is no run folder; give another --out"
            )
        return None
    try:
        facts = json.loads(path.read_text())
        if not isinstance(facts, dict):
            raise ValueError("not an object")
        return facts
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give another --out") from error


def _write(folder: Path, facts: Facts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / ".run.lock"):
        before = _read(folder)
        if before is not None:  # another runner was here first
            _compare(folder, before, facts)
            return
        with atomic(folder / RUN) as part:
            part.write_text(json.dumps(facts, indent=2) + "\n")


def _compare(folder: Path, before: Facts, wanted: Facts) -> None:
    differ = []
    for what in ("manifest", "method", "composite", "settings", "model", "dtype", "prediction_type"):
        old, new = _decides(what, before.get(what)), _decides(what, wanted.get(what))
        if what == "settings" and isinstance(old, dict):  # older folders also name those without effect
            old = {key: value for key, value in old.items() if key in new}
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            differ += [
                f"{what} {key}: {_show(old.get(key))} there, {_show(new.get(key))} now" for key in keys
            ]
        else:
            differ.append(f"{what}: {_show(old)} there, {_show(new)} now")
    if differ:
        raise InputError(
            f"{folder}: was made otherwise ({'; '.join(differ)}); give another --out, or the variant another "
            "name (--method NAME=METHOD:...)"
        )


def _decides(what: str, value: Any) -> Any:
    """The part that decides the pictures: where a file lies, for one, does not."""
    value = json.loads(json.dumps(value))
    if not isinstance(value, dict):
        return value
    drop = {"manifest": ("path",), "model": ("name",)}.get(what, ())
    return {key: item for key, item in value.items() if key not in drop}


def _show(value: Any) -> str:
    return value[:12] if isinstance(value, str) else json.dumps(value)


def _noted(name: str, before: Facts, wanted: Facts) -> Iterator[str]:
    for what in NOTED:  # said, not refused
        if before.get(what) != wanted.get(what):
            yield (
                f"{name}: begun with {what} {before.get(what)}, goes on with {wanted.get(what)}; "
                "the last bits of its pictures may differ"
            )


# ------------------------------------------------------------------------------------------------ pictures


@contextmanager
def workplace(out: Path, variant: str, sample: str) -> Iterator[Path]:
    """A folder of its own for a picture in the making, free of what a killed run left in it."""
    place = out / WORK / variant / sample
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def publish(result: Result, out: Path, variant: str, sample: str) -> None:
    """The picture with its record; it counts from the instant its PNG takes its name."""
    png, record = (out / variant / f"{sample}{suffix}" for suffix in (".png", ".json"))
    with workplace(out, variant, sample) as place:
        result.save(place / png.name, home=png.parent)
        try:
            os.replace(place / record.name, record)
            os.replace(place / png.name, png)
        except BaseException:
            if not png.exists():
                record.unlink(missing_ok=True)
            raise


# ------------------------------------------------------------------------------------------------ failures


def failures(folder: Path) -> dict[str, Facts]:
    """The last failure of every sample that has not been made since, by id."""
    path = folder / FAILED
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
            found[entry["id"]] = entry
        except (ValueError, KeyError, TypeError):  # a line that a kill cut short never happened
            continue
    return {sample: entry for sample, entry in found.items() if not is_done(folder, sample)}


def record_failure(folder: Path, sample: str, reason: str) -> None:
    path = folder / FAILED
    with alone(folder / ".failed.lock"):
        attempt = failures(folder).get(sample, {}).get("attempt", 0) + 1
        whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
        line = json.dumps({"id": sample, "reason": reason, "attempt": attempt})
        with path.open("a") as file:
            file.write(("" if whole else "\n") + line + "\n")


def forget_failure(folder: Path, sample: str) -> None:
    """A sample that was made at last is not failed any more."""
    path = folder / FAILED
    if not path.exists():
        return
    with alone(folder / ".failed.lock"):
        lines = path.read_text(errors="replace").splitlines(keepends=True)
        mark = json.dumps({"id": sample})[:-1] + ","
        kept = [line for line in lines if not line.startswith(mark)]
        if kept == lines:
            return
        if not kept:
            path.unlink()
            return
        with atomic(path) as part:
            part.write_text("".join(kept))
