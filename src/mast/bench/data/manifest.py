"""The manifest: one readable JSON-lines file that says what a benchmark is made of, with every file's hash.

Line 1 is the header, every other line a sample: a photo, and for each of its regions a mask and a style.
A path is relative to the manifest's folder when the file lies inside it, and absolute otherwise, so that a
benchmark whose pictures live elsewhere is never found by accident from the wrong place.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ...files import atomic, sha256
from ...job import InputError, Job, Region

KIND, VERSION, FILE_NAME = "mast-bench", 1, "manifest.jsonl"
RESERVED = {"run", "failed"}  # run.json, failed.jsonl
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

OnCount: TypeAlias = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


@dataclass(frozen=True)
class File:
    """A file of the benchmark, by its absolute path, and what its bytes must hash to."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class BenchRegion:
    """A named part of the photo and the style it is to be repainted in."""

    name: str
    mask: File
    style: File


@dataclass(frozen=True)
class BenchSample:
    """One picture to make. `tuple_index` counts the N-tuples of styles of this N from 0."""

    id: str
    n: int
    tuple_index: int
    content: File
    regions: tuple[BenchRegion, ...]

    def job(self) -> Job:
        """The photo and its regions, as every method takes them."""
        return Job(self.content.path, tuple(Region(r.style.path, r.mask.path) for r in self.regions))

    def files(self) -> tuple[File, ...]:
        return (self.content, *(f for region in self.regions for f in (region.mask, region.style)))


@dataclass(frozen=True)
class Header:
    """How the benchmark was made. `unannotated` says who got the pixels no annotation covers."""

    seed: int
    n: tuple[int, ...]
    contents: int
    styles: int
    unannotated: str = "background"
    source: str = "coco"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A benchmark. `sha256` is the hash of the file it was read from, empty before it is written."""

    path: Path
    header: Header
    samples: tuple[BenchSample, ...]
    sha256: str = field(default="", compare=False)

    def of(self, n: int) -> list[BenchSample]:
        return [sample for sample in self.samples if sample.n == n]

    def counts(self) -> dict[int, int]:
        """Samples for every N, in order."""
        return dict(sorted(Counter(sample.n for sample in self.samples).items()))


def safe_id(text: str) -> bool:
    """Whether a text may name a picture and its record everywhere, beside what a run folder keeps."""
    return SAFE.fullmatch(text) is not None and not text.endswith(".") and text.casefold() not in RESERVED


# ------------------------------------------------------------------------------------------------ writing


def write(manifest: Manifest, to: Path | None = None) -> None:
    """Writes the manifest, at its own path or, while its folder is not yet in place, at `to`.

    The bytes depend on nothing but the manifest: keys in a fixed order, no date, no machine's name.
    """
    home = Path(os.path.abspath(manifest.path)).parent
    known: dict[File, dict[str, str]] = {}  # thousands of samples share a few hundred files

    def out(file: File) -> dict[str, str]:
        if file not in known:
            known[file] = _file_out(file, home)
        return known[file]

    header = manifest.header
    lines: list[dict[str, Any]] = [
        {
            "kind": KIND,
            "version": VERSION,
            "seed": header.seed,
            "n": list(header.n),
            "contents": header.contents,
            "styles": header.styles,
            "unannotated": header.unannotated,
            "source": header.source,
            "notes": list(header.notes),
        }
    ]
    for sample in manifest.samples:
        lines.append(
            {
                "id": sample.id,
                "n": sample.n,
                "tuple": sample.tuple_index,
                "content": out(sample.content),
                "regions": [
                    {
                        "name": region.name,
                        "mask": out(region.mask),
                        "style": out(region.style),
                    }
                    for region in sample.regions
                ],
            }
        )
    with atomic(to or manifest.path) as part:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        part.write_bytes(text.encode("utf-8", "surrogateescape"))


def _file_out(file: File, home: Path) -> dict[str, str]:
    """Relative to the manifest wherever that can be: a folder that holds both may be moved."""
    path = os.path.abspath(file.path)
    with suppress(ValueError):  # on another drive
        path = os.path.relpath(path, home)
    return {"path": Path(path).as_posix(), "sha256": file.sha256}


# ------------------------------------------------------------------------------------------------ reading


def read(path: str | os.PathLike[str]) -> Manifest:
    """A manifest from its file, or from the folder that `mast bench make` wrote."""
    source = Path(path)
    if source.is_dir():
        source = source / FILE_NAME
    if not source.is_file():
        raise InputError(f"{source}: no such manifest; make one with: mast bench make DIR ...")
    try:
        lines = source.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from error
    if lines and not lines[-1]:
        lines.pop()
    home = Path(os.path.abspath(source)).parent
    header = _parse(source, 1, lines[0] if lines else "", _header)
    known: dict[tuple[str, str], File] = {}

    def file_in(entry: dict[str, Any]) -> File:
        key = (_text(entry["path"]), _text(entry["sha256"]))
        if key not in known:
            known[key] = File(Path(os.path.normpath(home / key[0])), key[1])
        return known[key]

    samples = tuple(
        _parse(source, i, line, lambda entry: _sample(entry, file_in)) for i, line in enumerate(lines[1:], 2)
    )
    if not samples:
        raise InputError(f"{source}: holds no sample; make it again with: mast bench make DIR ...")
    # Folded, because `Cat` and `cat` are one file on many disks.
    twice = [name for name, times in Counter(s.id.casefold() for s in samples).items() if times > 1]
    if twice:
        raise InputError(f"{source}: ids that stand for more than one sample: {', '.join(sorted(twice)[:5])}")
    return Manifest(Path(os.path.abspath(source)), header, samples, sha256(source))


def _parse(source: Path, number: int, line: str, build: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("not an object")
        return build(entry)
    except KeyError as error:
        problem = f"{error.args[0]!r} is missing"
    except (ValueError, TypeError, AttributeError) as error:
        problem = str(error)
    what = "this is no manifest of mast bench" if number == 1 else "damaged"
    raise InputError(f"{source}: line {number}: {what} ({problem}); make it again with: mast bench make")


def _header(entry: dict[str, Any]) -> Header:
    if entry["kind"] != KIND:
        raise ValueError(f"kind is {entry['kind']!r}")
    if entry["version"] != VERSION:
        raise ValueError(f"version is {entry['version']!r}; this mast reads version {VERSION}")
    return Header(
        seed=_whole(entry["seed"]),
        n=tuple(_whole(n) for n in entry["n"]),
        contents=_whole(entry["contents"]),
        styles=_whole(entry["styles"]),
        unannotated=_text(entry["unannotated"]),
        source=_text(entry["source"]),
        notes=tuple(_text(note) for note in entry["notes"]),
    )


def _sample(entry: dict[str, Any], file_in: Callable[[dict[str, Any]], File]) -> BenchSample:
    name, n = _text(entry["id"]), _whole(entry["n"])
    if not safe_id(name):
        raise ValueError(f"the id {name!r} cannot be a file's name")
    regions = tuple(
        BenchRegion(_text(r["name"]), file_in(r["mask"]), file_in(r["style"])) for r in entry["regions"]
    )
    if len(regions) != n:
        raise ValueError(f"{name} has {len(regions)} regions where n is {n}")
    return BenchSample(name, n, _whole(entry["tuple"]), file_in(entry["content"]), regions)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} where a whole number must be")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} where a text must be")
    return value


# ------------------------------------------------------------------------------------------------ verifying


def verify(manifest: Manifest, on_count: OnCount | None = None) -> None:
    """Hashes every file once; all that are missing or changed are named in one error, before any run."""
    files = list(dict.fromkeys(file for sample in manifest.samples for file in sample.files()))
    problems = []
    for i, file in enumerate(files):
        try:
            if not file.path.is_file():
                problems.append(f"{file.path}: missing")
            elif sha256(file.path) != file.sha256:
                problems.append(f"{file.path}: changed since the benchmark was made")
        except InputError as error:
            problems.append(str(error))
        if on_count is not None:
            on_count("verify", i + 1, len(files))
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise InputError(
            f"{manifest.path}: {len(problems)} of {len(files)} files are not what the benchmark was made "
            f"from; put them back, or make it again with mast bench make:{listed}"
        )
