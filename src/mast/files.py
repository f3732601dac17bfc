"""Files as they should be: whole or not there at all, hashed, and in their folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .job import InputError


def sha256(path: str | os.PathLike[str]) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when all went well, and is gone when it did not."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_output(
    path: str | os.PathLike[str], overwrite: bool = False, suffixes: tuple[str, ...] = (".png",)
) -> Path:
    """Refuses an output that could not be written later, before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(f"{target}: the output must end in {' or '.join(suffixes)}")
    if target.is_dir():
        raise InputError(f"{target}: this is a folder; give a file name for the output")
    if target.exists() and not overwrite:
        raise InputError(f"{target}: exists already and is kept; add --overwrite or choose another name")
    if target.parent.exists() and not target.parent.is_dir():
        raise InputError(f"{target}: {target.parent} is a file, not a folder; choose another folder")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder; create it first (mkdir -p {target.parent})")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); choose another folder") from error
    return target


def cache_folder() -> Path:
    """MAST_CACHE, or mast/ in the user's cache folder."""
    root = os.environ.get("MAST_CACHE")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mast"


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
