"""A user's files opened with care, hashed, and read as JSON that may come from anybody."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any, BinaryIO

from ..job import InputError
from .names import KINDS_OF_FILE, shown

CHUNK = 1 << 20
LARGEST_JSON = 64 << 20  # bytes
DEEPEST_JSON = 64  # lists and objects within each other
LONGEST_NUMBER = 20  # digits of a whole number: 64 bits


def open_regular(path: str | os.PathLike[str], what: str = "file") -> BinaryIO:
    """Opens what a user named. Only a regular file will do: a pipe would wait, a device never end."""
    name = shown(path)
    try:
        _refuse_irregular(os.stat(path).st_mode, name, what)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
        try:
            _refuse_irregular(os.fstat(descriptor).st_mode, name, what)  # it may be another one by now
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except InputError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{name}: no such file; give the path of the {what}") from error
    except PermissionError as error:
        raise InputError(f"{name}: reading is not permitted; check the file's rights") from error
    except (OSError, ValueError) as error:  # too long, links in a circle, a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name}: cannot be opened ({reason}); give the path of the {what}") from error


def _refuse_irregular(mode: int, name: str, what: str) -> None:
    if stat.S_ISDIR(mode):
        raise InputError(f"{name}: this is a folder; give the path of the {what}")
    if not stat.S_ISREG(mode):
        kind = KINDS_OF_FILE.get(stat.S_IFMT(mode), "no ordinary file")
        raise InputError(f"{name}: this is {kind}, and only files are read; give the path of the {what}")


def sha256(path: str | os.PathLike[str], what: str = "file") -> str:
    """Of a regular file, a piece at a time, and of no more than it holds when it is opened."""
    digest = hashlib.sha256()
    with open_regular(path, what) as file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def read_json(path: str | os.PathLike[str], what: str = "file", largest: int = LARGEST_JSON) -> Any:
    """What a JSON file holds; InputError for one that is too large, too deep, or no JSON."""
    with open_regular(path, what) as file:
        return parse_json(file.read(largest + 1), shown(path), largest)


def parse_json(text: str | bytes, name: str, largest: int = LARGEST_JSON) -> Any:
    """What a JSON text from anybody holds; `name` says in messages where it is from.

    Refused besides what is no JSON: NaN and infinities, numbers that 64 bits do not hold, a name given twice
    in one object, and what is larger or deeper than any file of ours.
    """
    if len(text) > largest:
        raise InputError(f"{name}: more than {largest >> 20} MB of JSON; this is no file of mast")
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        value = json.loads(
            text, parse_constant=_no_number, parse_float=_finite, parse_int=_whole, object_pairs_hook=_once
        )
        deep, level = 0, [value]
        while level := [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]:
            deep += 1
        if deep > DEEPEST_JSON:
            raise ValueError(f"nested more than {DEEPEST_JSON} deep")
        return value
    except RecursionError as error:
        raise InputError(f"{name}: damaged JSON (nested far too deep); copy the file again") from error
    except ValueError as error:
        raise InputError(f"{name}: damaged JSON ({error}); copy the file again") from error


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _no_number(text[:LONGEST_NUMBER])


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:40]!r} is given twice")
    return found
