"""Names of files: shown to people, and checked before anything is written under them."""

from __future__ import annotations

import os
import stat
import tempfile
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..job import InputError

KINDS_OF_FILE = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shown(path: str | bytes | os.PathLike[Any]) -> str:
    """A name as a message can carry it: bytes that are no text, line breaks and the like become escapes."""
    text = "".join(
        f"\\x{ord(c) - 0xDC00:02x}"
        if "\udc80" <= c <= "\udcff"
        else c.encode("unicode_escape").decode()
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        else c
        for c in os.fsdecode(path)
    )
    return (text if len(text) <= 300 else f"{text[:140]}...{text[-140:]}") or "''"


def kept(path: str | os.PathLike[str]) -> InputError:
    """The error for an output that is there and not to be overwritten."""
    return InputError(
        f"{shown(path)}: exists already and is kept; choose another name or allow overwriting "
        "(overwrite=True, --overwrite)"
    )


def check_output(
    path: str | os.PathLike[str], overwrite: bool = False, suffixes: tuple[str, ...] | None = (".png",)
) -> Path:
    """Refuses an output that could not be written later, before any work is done. suffixes: None for any."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"the output is given as {type(path).__name__}; give a path")
    target, name = Path(path), shown(path)
    if not os.fspath(path):
        raise InputError("the output has no name; give a file name, such as out.png")
    try:
        if os.path.isdir(target):
            raise InputError(f"{name}: this is a folder; give a file name for the output")
        if suffixes is not None and target.suffix.lower() not in suffixes:
            raise InputError(f"{name}: the output must end in {' or '.join(suffixes)}")
        if not overwrite and os.path.lexists(target):
            raise kept(target)
        with suppress(FileNotFoundError):  # a name that is too long and links in a circle fail otherwise
            if not stat.S_ISREG(mode := os.stat(target).st_mode):
                kind = KINDS_OF_FILE.get(stat.S_IFMT(mode), "no ordinary file")
                raise InputError(f"{name}: this is {kind}, not a file; choose another name")
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except InputError:
        raise
    except (OSError, ValueError) as error:
        folder = shown(target.parent)
        if os.path.isfile(target.parent):
            raise InputError(f"{name}: {folder} is a file, not a folder; choose another folder") from error
        if isinstance(error, FileNotFoundError) and not os.path.isdir(target.parent):
            raise InputError(f"{folder}: no such folder; create it first (mkdir -p {folder})") from error
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name}: cannot be written ({reason}); choose another name or folder") from error
    return target


def check_outputs(
    paths: Iterable[str | os.PathLike[str]],
    inputs: Iterable[Any] = (),
    overwrite: bool = False,
    suffixes: tuple[str, ...] | None = None,
) -> list[Path]:
    """`check_output` for all that a command will write; besides, none may be another, nor one of the inputs.

    inputs: whatever the command reads; what is no path (an array, None) is passed over.
    """
    given: set[object] = set()
    for path in inputs:
        if isinstance(path, (str, os.PathLike)):
            text = os.fspath(path)
            head = text.rpartition("#")[0]  # MAP.png#rrggbb names one colour of MAP.png
            given |= _identities(head if head and not os.path.lexists(text) else text)
    found: list[Path] = []
    taken: set[object] = set()
    for path in paths:
        target = check_output(path, True, suffixes)
        ids = _identities(target)
        if ids & given:
            raise InputError(f"{shown(path)}: this is one of the inputs; choose another name for the output")
        if ids & taken:
            raise InputError(f"{shown(path)}: two outputs would have this name; choose another")
        if not overwrite and os.path.lexists(target):
            raise kept(target)
        taken |= ids
        found.append(target)
    return found


def _identities(path: str | os.PathLike[str]) -> set[object]:
    """What two paths of one file have in common: where it is in the end, and what it is on its disk."""
    ids: set[object] = set()
    with suppress(OSError, ValueError):
        ids.add(os.path.realpath(path))
        found = os.stat(path)
        ids.add((found.st_dev, found.st_ino))
    return ids


def cache_folder() -> Path:
    """MAST_CACHE, or mast/ in the user's cache folder."""
    if root := os.environ.get("MAST_CACHE"):
        return Path(root)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "mast"
