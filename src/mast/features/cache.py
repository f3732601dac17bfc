"""Trajectories and features on disk, so that nothing is inverted twice.

Files are named by what they depend on, written under a temporary name and renamed, and dropped, least
recently used first, when all of them grow past the limit. A damaged file is removed and its content made
again. Nothing but the cache's own files is ever removed: they lie in folders that the marker names, they are
no links, and each says in its first bytes, or by its name, whose it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..files import atomic, cache_folder, open_regular, parse_json, remove_leftovers, shown
from ..job import InputError

DEFAULT_LIMIT = 6 << 30
KINDS = ("trajectories", "features", "metrics", "embeddings")
MARKER = ".mast-cache"
LABEL = "mast"  # the one entry of a file's metadata: JSON with crc32, about, made
KEY = re.compile(r"[0-9a-f]{32}(-[\w.-]+)?", re.ASCII)
SIGNED = re.compile(rb'.{8}\{"__metadata__":\{"(mast":"\{|crc32":"[0-9a-f]{8}"\})', re.DOTALL)  # crc32: 0.1's
UNFINISHED = re.compile(r"\.mast-.*|tmp\w{8}\.part")  # as 0.1 called it
PART_AGE = 3600  # seconds
LONGEST_LABEL = 4096  # bytes

_publishing = threading.Lock()


def cache_limit() -> int:
    """MAST_CACHE_LIMIT, or 6 GB."""
    text = os.environ.get("MAST_CACHE_LIMIT")
    return parse_size(text, "MAST_CACHE_LIMIT") if text else DEFAULT_LIMIT


def parse_size(text: str, name: str) -> int:
    """Bytes from "500000", "200K", "1.5G"."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    try:
        size = int(float(text[:-1] if scale > 1 else text) * scale)
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise InputError(f"{name} is {text!r}; give bytes, or a number with K, M or G")
    return size


def content_key(image: Tensor, **dependencies: Any) -> str:
    """A name for what is made from an image tensor and the given facts (sizes, fingerprint, schedule,
    ...).
    """
    digest = hashlib.sha256(json.dumps(dependencies, sort_keys=True, default=str).encode())
    digest.update(str(tuple(image.shape)).encode())
    digest.update(image.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class CacheEntry:
    """about: what it was made from, for people ("cat.jpg 512x384"); made: when, in seconds since 1970."""

    path: Path
    kind: str
    bytes: int
    used: float
    about: str = ""
    made: float | None = None


class Cache:
    """One folder with a sub-folder for each kind: trajectories/KEY.safetensors, features/KEY.safetensors, ...

    A sub-folder in which others keep files is left to them: its kind is then not cached.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None):
        self.folder = folder or cache_folder()
        self.limit = cache_limit() if limit is None else limit
        self._kept_to: int | None = None  # the limit that the folder was last held to

    def path(self, kind: str, key: str) -> Path:
        if kind not in KINDS or not re.fullmatch(r"\w[\w.-]*", key):
            raise ValueError(f"{kind}/{key} is no place in the cache")
        return self.folder / kind / f"{key}.safetensors"

    def read(self, kind: str, key: str, names: Collection[str] = ()) -> dict[str, Tensor] | None:
        """The tensors of an entry, or None when there is none, or it is damaged or lacks one of `names`."""
        tensors: dict[str, Tensor] = {}
        return tensors if self._verify(kind, key, names, tensors.__setitem__) else None

    def sound(self, kind: str, key: str, names: Collection[str] = ()) -> Path | None:
        """The path of an entry that `read` would believe, without holding all of it in memory."""
        return self._verify(kind, key, names, lambda name, tensor: None)

    def _verify(
        self, kind: str, key: str, names: Collection[str], take: Callable[[str, Tensor], None]
    ) -> Path | None:
        """Whether every bit of an entry is as it was written, all names are there and all numbers finite; if
        not, it is dropped.
        """
        path = self.find(kind, key)
        if path is None:
            return None
        try:
            with safe_open(path, framework="pt") as file:
                label = _parse_label(file.metadata())
                found = sorted(file.keys())
                total, finite = _crc32_of_label(kind, key, label), True
                for name in found:
                    tensor = file.get_tensor(name)
                    total, finite = _crc32(name, tensor, total), finite and _finite(tensor)
                    take(name, tensor)
            if label["crc32"] == f"{total:08x}" and finite and set(names) <= set(found):
                return path
        except Exception:  # a damaged file can fail in any way, and is made again whatever it was
            pass
        self._drop(path)
        return None

    def find(self, kind: str, key: str) -> Path | None:
        """The path of an entry whose file is whole, marked as just used."""
        self._hold_to_limit()
        path = self.path(kind, key)
        if not _is_file(path) or not self._owns(kind):
            return None
        try:
            with safe_open(path, framework="pt") as file:  # checks the header against the file's length
                file.keys()
            with suppress(OSError):  # somebody else's cache may be read, too
                os.utime(path)
        except (SafetensorError, OSError):
            self._drop(path)
            return None
        return path

    def write(self, kind: str, key: str, tensors: Mapping[str, Tensor], about: str = "") -> Path | None:
        """Stores an entry; a disk that is full or read-only costs the cache, not the run.

        about: what it was made from, for people who list the cache.
        """
        self._hold_to_limit()
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        size = sum(tensor.numel() * tensor.element_size() for tensor in whole.values())
        if size > self.limit // 2 or not all(map(_finite, whole.values())):
            return None
        label: dict[str, Any] = {"about": shown(about)[:200] if about else "", "made": int(time.time())}
        total = _crc32_of_label(kind, key, label)
        for name in sorted(whole):
            total = _crc32(name, whole[name], total)
        metadata = {LABEL: json.dumps({"crc32": f"{total:08x}", **label})}
        path = self.path(kind, key)
        try:
            with _publishing:  # so that threads do not fill together what each finds free
                if not self._claim(kind):
                    return None
                with atomic(path) as part:
                    save_file(whole, part, metadata=metadata)
                    self.prune(self.limit - part.stat().st_size)
            return path
        except (OSError, SafetensorError):
            return None

    def entries(self) -> list[CacheEntry]:
        """Everything kept, least recently used first."""
        found = []
        for path, kind, status in self._files():
            label = _read_label(path)
            found.append(
                CacheEntry(
                    path, kind, status.st_size, status.st_mtime, label.get("about", ""), label.get("made")
                )
            )
        return sorted(found, key=lambda entry: entry.used)

    def prune(self, limit: int | None = None) -> int:
        """Drops the least recently used entries until the rest fits `limit` bytes, and what was never
        finished. Returns the bytes freed.
        """
        self._remove_parts(PART_AGE)
        files = sorted(self._files(), key=lambda file: file[2].st_mtime)
        excess, freed = sum(s.st_size for *_, s in files) - (self.limit if limit is None else limit), 0
        for path, _, status in files:
            if freed >= excess:
                break
            with suppress(OSError):
                path.unlink()
                freed += status.st_size
        return freed

    def clear(self) -> int:
        """Drops everything, left-over temporary files too. Returns the bytes freed."""
        self._remove_parts(-math.inf)
        freed = 0
        for path, _, status in self._files():
            with suppress(OSError):
                path.unlink()
                freed += status.st_size
        return freed

    # ---------------------------------------------------------------------------------------- what is ours

    def _owned(self) -> set[str]:
        """The kinds whose folders are the cache's own, as the marker says."""
        try:
            with open_regular(self.folder / MARKER) as file:
                lines = set(file.read(LONGEST_LABEL).decode(errors="replace").splitlines())
        except (InputError, OSError):
            return set()
        return {kind for kind in KINDS if kind in lines and _is_folder(self.folder / kind)}

    def _owns(self, kind: str) -> bool:
        return kind in self._owned()

    def _claim(self, kind: str) -> bool:
        """Makes a kind's folder, or takes one in which there is nothing but entries of ours."""
        owned = self._owned()
        if kind in owned:
            return True
        folder = self.folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_folder(folder) or not all(
            _signed(path) or UNFINISHED.fullmatch(path.name) for path in folder.iterdir()
        ):
            return False
        with atomic(self.folder / MARKER) as part:
            text = (
                "mast's cache: what is in the folders named below, mast may remove. Nothing else is touched."
            )
            part.write_text("\n".join([text, *sorted({*owned, kind})]) + "\n")
        return True

    def _files(self) -> Iterator[tuple[Path, str, os.stat_result]]:
        """The entries' files. Others that somebody put beside them are passed over, and so are links."""
        for kind in self._owned():
            with suppress(OSError):
                for path in (self.folder / kind).iterdir():
                    if path.suffix != ".safetensors" or path.name.startswith("."):
                        continue
                    if _is_file(path) and (KEY.fullmatch(path.stem) or _signed(path)):
                        with suppress(OSError):
                            yield path, kind, path.lstat()

    def _remove_parts(self, age: float) -> None:
        for kind in self._owned():
            remove_leftovers(self.folder / kind)
            with suppress(OSError):
                for path in (self.folder / kind).glob("*.part"):
                    if _is_file(path) and time.time() - path.lstat().st_mtime > age:
                        path.unlink()

    def _hold_to_limit(self) -> None:
        """A limit that was lowered acts when the cache is next used, whatever for."""
        if self._kept_to != self.limit:
            self._kept_to = self.limit
            self.prune()

    def _drop(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def _is_file(path: Path) -> bool:
    """Neither a link nor a pipe, at which opening would wait."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _signed(path: Path) -> bool:
    """Whether a file says in its first bytes that it is an entry."""
    return _is_file(path) and SIGNED.match(_head(path, 64)) is not None


def _head(path: Path, count: int) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(count)
    except (InputError, OSError):
        return b""


def _read_label(path: Path) -> dict[str, Any]:
    """The label of an entry, from the beginning of its header alone; {} when there is none."""
    head = _head(path, LONGEST_LABEL)[8:].decode(errors="replace")
    try:
        return _parse_label(json.JSONDecoder().raw_decode(head, len('{"__metadata__":'))[0])
    except (ValueError, KeyError, TypeError):
        return {}


def _parse_label(metadata: Any) -> dict[str, Any]:
    label = parse_json(metadata[LABEL], "label")
    if not isinstance(label["about"], str) or not isinstance(label["made"], int):
        raise ValueError("no label of mast")
    return label


def _crc32_of_label(kind: str, key: str, label: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([kind, key, label["about"], label["made"]]).encode())


def _crc32(name: str, tensor: Tensor, before: int) -> int:
    """Goes on from `before` with a tensor's name, kind of number, shape and every bit."""
    head = zlib.crc32(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode(), before)
    return zlib.crc32(tensor.cpu().reshape(-1).view(torch.uint8).numpy().data, head)


def _finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def storage(name: str) -> torch.dtype:
    return {"float16": torch.float16, "float32": torch.float32}[name]
