"""A folder that is there as a whole or not at all: made beside its place, moved in when complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..job import InputError
from .manifest import FILE_NAME

OWN = {FILE_NAME, "masks", "masks.png"}  # all that a benchmark's folder holds


def check_folder(folder: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    """Refuses a folder that is in use. With `overwrite` a benchmark is replaced, and nothing but one."""
    if folder.is_file():
        raise InputError(f"{folder}: this is a file; give a folder for the benchmark")
    parent = Path(os.path.abspath(folder)).parent
    if not parent.is_dir():
        raise InputError(f"{parent}: no such folder; create it first (mkdir -p {parent})")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{folder}: exists already and is kept; add --overwrite or choose another name")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in OWN)
    if foreign:
        raise InputError(
            f"{folder}: not replaced, because it holds more than a benchmark ({', '.join(foreign[:5])}); "
            "choose another name"
        )
    if not (folder / FILE_NAME).is_file():
        raise InputError(f"{folder}: not replaced, because it is no benchmark; choose another name")
    home = Path(os.path.abspath(folder))
    if any(Path(os.path.abspath(path)).is_relative_to(home) for path in inputs):
        raise InputError(f"{folder}: not replaced, because the new one is made from it; choose another name")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its name when all went well, and is gone when it did not.

    A folder that was there goes only when the new one is in place.
    """
    try:
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        try:
            os.chmod(part, 0o755)
            yield part
            _swap(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); nothing was made") from error


def _swap(new: Path, target: Path) -> None:
    if not target.exists():
        os.rename(new, target)
        return
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-old-"))
    os.rename(target, aside / "was")
    try:
        os.rename(new, target)
    except OSError:
        os.rename(aside / "was", target)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
