"""Trajectories and features on disk, so that nothing is inverted twice.

Files are named by what they depend on, written under a temporary name and renamed, and dropped, least
recently used first, when the folder grows past its limit. A damaged file is removed and its content made
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..files import cache_folder
from ..job import InputError

DEFAULT_LIMIT = 6 << 30


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
    path: Path
    kind: str
    bytes: int
    used: float


class Cache:
    """One folder, two kinds of files: trajectories/KEY.safetensors and features/KEY.safetensors."""

    def __init__(self, folder: Path | None = None, limit: int | None = None):
        self.folder = folder or cache_folder()
        self.limit = cache_limit() if limit is None else limit

    def path(self, kind: str, key: str) -> Path:
        return self.folder / kind / f"{key}.safetensors"

    def read(self, kind: str, key: str) -> dict[str, Tensor] | None:
        """The tensors of an entry, or None when there is none or it is damaged."""
        found = self.find(kind, key)
        if found is None:
            return None
        try:
            with safe_open(found, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                stated = (file.metadata() or {}).get("crc32")
            if stated == _checksum(tensors):
                return tensors
            self._drop(found)
            return None
        except (SafetensorError, OSError):
            self._drop(found)
            return None

    def sound(self, kind: str, key: str) -> Path | None:
        """The path of an entry every bit of which is as it was written; a damaged one is dropped."""
        path = self.find(kind, key)
        if path is None:
            return None
        try:
            with safe_open(path, framework="pt") as file:
                stated, total = (file.metadata() or {}).get("crc32"), 0
                for name in sorted(file.keys()):
                    total = _crc32(file.get_tensor(name), total)
        except (SafetensorError, OSError):
            stated, total = None, 0
        if stated == f"{total:08x}":
            return path
        self._drop(path)
        return None

    def find(self, kind: str, key: str) -> Path | None:
        """The path of an entry whose file is whole, marked as just used."""
        path = self.path(kind, key)
        if not path.exists():
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

    def write(self, kind: str, key: str, tensors: Mapping[str, Tensor]) -> Path | None:
        """Stores an entry; a disk that is full or read-only costs the cache, not the run."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if size > self.limit // 2:
            return None
        path = self.path(kind, key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            os.close(handle)
            whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(whole, temporary, metadata={"crc32": _checksum(whole)})
            self.prune(self.limit - os.path.getsize(temporary))
            os.replace(temporary, path)
            return path
        except (OSError, SafetensorError):
            return None
        finally:
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)

    def entries(self) -> list[CacheEntry]:
        """Everything kept, least recently used first."""
        found = []
        for path in self.folder.glob("*/*.safetensors"):
            with suppress(OSError):
                stat = path.stat()
                found.append(CacheEntry(path, path.parent.name, stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda entry: entry.used)

    def prune(self, limit: int | None = None) -> int:
        """Drops the least recently used entries until the rest fits `limit` bytes. Returns the bytes
        freed.
        """
        entries = self.entries()
        excess, freed = sum(entry.bytes for entry in entries) - (self.limit if limit is None else limit), 0
        for entry in entries:
            if freed >= excess:
                break
            with suppress(OSError):
                entry.path.unlink()
                freed += entry.bytes
        return freed

    def clear(self) -> int:
        """Drops everything, left-over temporary files too. Returns the bytes freed."""
        for part in self.folder.glob("*/*.part"):
            with suppress(OSError):
                part.unlink()
        return self.prune(0)

    def _drop(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """A flipped bit leaves a file's length and header alone; this does not."""
    total = 0
    for _, tensor in sorted(tensors.items()):
        total = _crc32(tensor, total)
    return f"{total:08x}"


def _crc32(tensor: Tensor, before: int) -> int:
    return zlib.crc32(tensor.cpu().reshape(-1).view(torch.uint8).numpy().data, before)


def storage(name: str) -> torch.dtype:
    return {"float16": torch.float16, "float32": torch.float32}[name]
