"""Who makes which picture: an operating-system lock per picture.

The kernel takes a lock back when its process ends, however it ends, so nothing has to be cleaned up after a
kill, and shards, workers and a second runner can all use one folder. A file that merely exists would not do:
it would outlive its maker.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...job import InputError

CLAIMS = ".claims"
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def claimed(folder: Path, sample: str) -> Iterator[bool]:
    """Whether the sample is ours for as long as the block lasts; it never waits.

    folder: the variant's. The lock is OUT/<variant>/.claims/<id>.lock and is gone afterwards.
    """
    claims = folder / CLAIMS
    claims.mkdir(exist_ok=True)
    with _lock(claims / f"{sample}.lock", wait=False) as ours:
        yield ours


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Waits until nobody else is in such a block; for writes that take an instant."""
    with _lock(path, wait=True):
        yield


@contextmanager
def _lock(path: Path, wait: bool) -> Iterator[bool]:
    handle = _acquire(path, wait)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            # Removed while still held: whoever has opened the file by now sees that it lost its name. Windows
            # keeps an open file, which does no harm.
            with suppress(OSError):
                os.unlink(path)
            os.close(handle)


def _acquire(path: Path, wait: bool) -> int | None:
    """A handle that holds the lock, or None when somebody else does."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _take(handle, wait):
                os.close(handle)
                return None
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        except OSError as error:
            os.close(handle)
            if error.errno in NO_LOCKS:
                raise InputError(
                    f"{path.parent}: its file system knows no locks ({error.strerror}), so two workers could "
                    "make one picture twice; choose another --out"
                ) from error
            raise
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its last owner has just removed it; lock the one that bears the name now


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int, wait: bool) -> bool:
        """Locks the file's first byte; Windows gives it back when the process ends."""
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                return True
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK, errno.EDEADLOCK):
                    raise
                if not wait:
                    return False
else:
    import fcntl

    def _take(handle: int, wait: bool) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return True
        except BlockingIOError:
            return False
