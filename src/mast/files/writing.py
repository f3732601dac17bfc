"""Our own files and folders: whole or not there at all, and what a killed process left is removed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..job import InputError
from .names import kept, shown

ABANDONED = 2 * 86400  # seconds; a temporary file this old is nobody's, whoever made it
NO_LINKS = (
    errno.EPERM,
    errno.EACCES,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.ENOTSUP,
    errno.EMLINK,
    errno.EXDEV,
)


@contextmanager
def atomic(path: str | os.PathLike[str], overwrite: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when all went well, and is gone when it did not.

    overwrite: without it, of several writers at once the first has the name, and the others InputError.
    """
    target = Path(path)
    remove_leftovers(target.parent)
    temporary = _temporary(target.parent, target.suffix)
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)  # what the umask leaves; some writers set another
        os.close(descriptor)
        yield temporary
        os.chmod(temporary, mode)
        if overwrite:
            os.replace(temporary, target)
        else:
            _publish_new(temporary, target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(target), None  # the name that people know
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def _publish_new(temporary: Path, target: Path) -> None:
    """Gives a finished file its name unless somebody has it: links know that, renaming does not."""
    try:
        try:
            os.link(temporary, target)
            return
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError as error:
        raise kept(target) from error
    try:
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its name when all went well, and is gone when it did not.

    A folder that was there goes only when the new one is in place.
    """
    try:
        remove_leftovers(target.parent)
        part = _temporary(target.parent)
        try:
            part.mkdir()
            yield part
            _swap(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"{shown(target)}: cannot be written ({error.strerror}); nothing was made"
        ) from error


def _swap(new: Path, target: Path) -> None:
    if not target.exists():
        os.rename(new, target)
        return
    aside = _temporary(target.parent, ASIDE)
    aside.mkdir()
    try:
        os.rename(target, aside / target.name)
        os.rename(new, target)
    finally:
        if not os.path.lexists(target):
            os.rename(aside / target.name, target)
        shutil.rmtree(aside, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ leftovers

ASIDE = ".aside"
OURS = re.compile(
    r"\.mast-(?P<machine>[0-9a-f]{8})-(?P<process>\d{1,10})-[0-9a-f]{16}(\.\w{1,16})?", re.ASCII
)


def _temporary(folder: Path, suffix: str = "") -> Path:
    """A name nobody has, which says whose it is: a killed process cannot tidy up, the next one can."""
    name = f".mast-{_machine()}-{os.getpid()}-{secrets.token_hex(8)}"
    return folder / (name + suffix if OURS.fullmatch(name + suffix) else name)


@cache
def _machine() -> str:
    """Eight digits for where process numbers mean the same: host, boot, container."""
    facts = [socket.gethostname()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return hashlib.sha256(" ".join(facts).encode(errors="replace")).hexdigest()[:8]


def remove_leftovers(folder: Path) -> None:
    """Removes what killed processes of mast left in a folder: our names only, of processes that are gone, or
    days old. A folder that was being replaced gets its name back.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = OURS.fullmatch(entry.name)
            if match is None:
                continue
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
                gone = match["machine"] == _machine() and not _alive(int(match["process"]))
                if not mine or not (gone or time.time() - found.st_mtime > ABANDONED):
                    continue
                if stat.S_ISREG(found.st_mode):
                    os.unlink(entry.path)
                elif stat.S_ISDIR(found.st_mode):
                    for old in os.listdir(entry.path) if entry.name.endswith(ASIDE) else []:
                        if not os.path.lexists(folder / old):
                            os.rename(Path(entry.path, old), folder / old)
                    shutil.rmtree(entry.path, ignore_errors=True)


def _alive(process: int) -> bool:
    if os.name != "posix":  # there, asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
