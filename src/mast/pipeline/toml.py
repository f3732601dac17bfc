"""TOML that people write: values with the lines they stand in, so that what is wrong can be pointed at."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from ..files import open_regular, shown
from ..job import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST = 256 << 10  # bytes
LONGEST_VALUE = 200  # lines over which one value is followed
AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
AT_END = " (at end of document)"
KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}

Key = tuple["str | int", ...]


@dataclass
class TomlFile:
    """A file's path, text and values."""

    path: Path
    text: str
    values: dict[str, Any]

    @property
    def top(self) -> TomlTable:
        return TomlTable(self, (), self.values)

    def beside(self, text: str) -> Path:
        """A path that is relative to the file."""
        return Path(os.path.normpath(self.path.parent / text))

    @cached_property
    def lines(self) -> dict[Key, int]:
        """The line, from 1, on which a key or a table begins.

        A statement of TOML ends with its line unless it holds several, and no part of it is a whole one: so
        lines are added until they parse.
        """
        found: dict[Key, int] = {}
        inside: Key = ()
        counts: dict[Key, int] = {}
        begun, piece = 0, list[str]()
        for number, line in enumerate(self.text.split("\n"), 1):
            piece.append(line)
            begun = begun or number
            try:
                said = tomllib.loads("\n".join(piece))
            except ValueError:
                if len(piece) > LONGEST_VALUE:
                    break
                continue
            head = piece[0].lstrip()
            if head.startswith("["):
                inside = _opened(said, head.startswith("[["), counts)
                found.setdefault(inside, begun)
            else:
                _note(found, inside, said, begun)
            begun, piece = 0, []
        return found

    def line(self, key: Key) -> int:
        """Where a key stands, or the nearest of what it is in."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)


def _opened(said: dict[str, Any], one_of_many: bool, counts: dict[Key, int]) -> Key:
    """The table that a [header] opens; of a [[header]], which one."""
    key: Key = ()
    inner: Any = said
    while isinstance(inner, dict) and inner:
        name = next(iter(inner))
        inner = inner[name]
        key = (*key, name)
        if one_of_many and isinstance(inner, list):
            counts[key] = counts.get(key, -1) + 1
            return (*key, counts[key])
        if key in counts:
            key = (*key, counts[key])
    return key


def _note(found: dict[Key, int], inside: Key, said: dict[str, Any], line: int) -> None:
    for name, value in said.items():
        key = (*inside, name)
        found.setdefault(key, line)
        if isinstance(value, dict):
            _note(found, key, value, line)


@dataclass
class TomlTable:
    """A table of a file: its values by name, each refused with its line if it is not what is wanted."""

    file: TomlFile
    key: Key
    values: dict[str, Any] = field(default_factory=dict)

    def error(self, name: str | None, message: str) -> InputError:
        """The error that points at a value, or, with None, at the table."""
        line = self.file.line(self.key if name is None else (*self.key, name))
        return InputError(f"{shown(self.file.path)}:{line}: {message}")

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Points errors from within at a value."""
        try:
            yield
        except InputError as error:
            raise self.error(name, str(error)) from error

    def only(self, names: Sequence[str], what: str) -> None:
        """Refuses a name that nobody reads."""
        for name in self.values:
            if name not in names:
                begins = [one for one in names if one.startswith(name)]
                near = begins or get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise self.error(name, f"{what} has no {shown(name)!r}{hint} (there are {', '.join(names)})")

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str:
        found = self._of(name, (str,), default)
        if "\0" in found:
            raise self.error(name, f"{name} holds a NUL; no file is called so")
        return str(found)

    def whole(self, name: str) -> int | None:
        return self._of(name, (int,), None) if name in self.values else None

    def number(self, name: str, default: float) -> float:
        found = float(self._of(name, (int, float), default))
        if not math.isfinite(found):
            raise self.error(name, f"{name} is {found}; write a number")
        return found

    def table(self, name: str) -> TomlTable:
        found = self._of(name, (dict,), {})
        return TomlTable(self.file, (*self.key, name), found)

    def tables(self, name: str) -> list[TomlTable]:
        """Of [[name]], all."""
        found = self.values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.error(name, f"{name} is {_kind(found)}; write [[{name}]] above each")
        return [TomlTable(self.file, (*self.key, name, i), one) for i, one in enumerate(found)]

    def _of(self, name: str, kinds: tuple[type, ...], default: Any) -> Any:
        value = self.values.get(name, default)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            example = f', as in {name} = "..."' if kinds == (str,) else ""
            raise self.error(name, f"{name} is {_kind(value)}; it must be {KINDS[kinds[-1]]}{example}")
        return value


def _kind(value: Any) -> str:
    kind = KINDS.get(type(value), "a date or time")
    return f"{kind} ({shown(str(value))[:40]})" if isinstance(value, (str, bool, int, float)) else kind


def read_toml(path: str | os.PathLike[str], what: str) -> TomlFile:
    """A TOML file; InputError with the line for one that is none."""
    name = shown(path)
    with open_regular(path, what) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise InputError(f"{name}: more than {LARGEST >> 10} kB; this is no {what}")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{name}:{line}: this is no text in UTF-8; save it as UTF-8") from error
    try:
        return TomlFile(Path(path), text, tomllib.loads(text))
    except RecursionError as error:
        raise InputError(f"{name}: nested far too deep; this is no {what}") from error
    except ValueError as error:
        said = str(error)
        place = AT_LINE.search(said)
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        said = AT_LINE.sub("", said).removesuffix(AT_END)
        raise InputError(
            f"{name}:{line}: this is not TOML ({said}); see docs/jobs.md for an example"
        ) from error


# ------------------------------------------------------------------------------------------------ writing


def written(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise InputError(f"{type(value).__name__} has no place in a job file")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{shown(value)}: the name is no text, so no job file can hold it; rename the file"
        ) from error
    return '"' + "".join(_letter(c) for c in value) + '"'


def _letter(c: str) -> str:
    if c in '"\\':
        return f"\\{c}"
    return c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}"
