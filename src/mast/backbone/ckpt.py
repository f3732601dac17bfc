"""A .ckpt as PyTorch and PyTorch Lightning write it, read without running anything in it.

Such a file is a pickle: beside the weights it holds callbacks, counters, settings, objects of any class. Here
tensors are built by a few functions of our own, and an object of a package that training leaves traces of is
replaced by a bystander that does nothing. A pickle that asks for anything else is refused.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import open_regular
from ..job import InputError
from .parts import first_line

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
TRACES = {"pytorch_lightning", "lightning", "lightning_fabric", "torchmetrics", "torch", "ldm"}
TRACES |= {"omegaconf", "numpy", "argparse", "collections", "pathlib", "typing"}
HARMLESS = {"set", "frozenset", "dict", "list", "tuple", "slice", "bytearray", "complex", "object", "getattr"}
HARMLESS |= {"int", "float", "str", "bool", "bytes", "range", "_reconstructor", "encode"}
HARMLESS |= {"long", "unicode", "xrange"}  # as protocol 2 writes int, str and range
BUILTINS = {"builtins", "__builtin__", "copyreg", "copy_reg", "_codecs"}
MOST_DIMENSIONS = 8


class Bystander:
    """Stands for an object that is not needed: takes what it is given and does nothing."""

    def __new__(cls, *_: Any, **__: Any) -> Bystander:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Bystander:
        return self

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def add(self, item: Any) -> None: ...


@dataclass
class StoredNumbers:
    """Where a tensor's numbers are in the archive, as its pickle says."""

    dtype: Any
    key: Any


@dataclass
class DescribedTensor:
    """A tensor that is not built yet: its pickle's own words, none of them checked."""

    stored: Any
    offset: Any
    size: Any
    stride: Any


def _describe(stored: Any, offset: Any, size: Any, stride: Any, *_: Any) -> DescribedTensor:
    return DescribedTensor(stored, offset, size, stride)


def _parameter(tensor: Any, *_: Any) -> Any:
    return tensor


KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _describe,
    ("torch._utils", "_rebuild_tensor_v2"): _describe,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch", "Size"): tuple,
} | {("torch", name): dtype for name, dtype in STORAGES.items()}


class CheckpointReader(pickle.Unpickler):
    """Builds plain containers, descriptions of tensors, and bystanders; calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN:
            return KNOWN[module, name]
        if module.split(".")[0] in TRACES or (module in BUILTINS and name in HARMLESS):
            return Bystander
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> StoredNumbers:
        _, dtype, key, *_ = pid
        return StoredNumbers(dtype, key)


def read_ckpt(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint's state dict by name, still in the file: only what is used is read."""
    try:
        if not zipfile.is_zipfile(path):  # PyTorch before 1.6; its own reader takes tensors and nothing else
            return _tensors(torch.load(path, map_location="cpu", weights_only=True), lambda value: value)
        with zipfile.ZipFile(path) as archive, open_regular(path, "model") as file:
            root = next(name for name in archive.namelist() if name.endswith("/data.pkl")).rsplit("/", 1)[0]
            content = CheckpointReader(io.BytesIO(_stored(archive, f"{root}/data.pkl"))).load()
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            return _tensors(content, lambda found: _built(found, archive, root, whole))
    except pickle.UnpicklingError as error:
        asked = str(error) if str(error).startswith("it asks for") else "it asks for more than tensors"
        raise InputError(
            f"{path}: not opened for safety ({asked}), or damaged; take the .safetensors file of the same "
            "model, or convert it where you trust it"
        ) from error
    except Exception as error:
        reason = "it is cut short" if isinstance(error, StopIteration) else first_line(error)
        raise InputError(f"{path}: damaged or not a checkpoint ({reason}); fetch it again") from error


def _tensors(content: Any, build: Any) -> dict[str, Tensor]:
    """All tensors of the state dict, which is the content itself or under its name."""
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise ValueError("it holds no tensors by name")
    found = {name: value for name, value in content.items() if isinstance(value, (DescribedTensor, Tensor))}
    if not found:
        raise ValueError("it holds no tensors by name")
    return {str(name): build(value) for name, value in found.items()}


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, as PyTorch never does")
    return archive.read(name)


def _built(tensor: DescribedTensor, archive: zipfile.ZipFile, root: str, whole: mmap.mmap) -> Tensor:
    """A described tensor as a view of the file, every number it claims checked against the file's size."""
    if not isinstance(tensor.stored, StoredNumbers) or not isinstance(tensor.stored.dtype, torch.dtype):
        raise ValueError("a tensor without numbers")
    dtype, info = tensor.stored.dtype, archive.getinfo(f"{root}/data/{tensor.stored.key}")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed, as PyTorch never does")
    header = whole[info.header_offset : info.header_offset + 30]
    start = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
    count = info.file_size // dtype.itemsize
    size, stride, offset = tuple(tensor.size), tuple(tensor.stride), tensor.offset
    plain = all(type(x) is int and x >= 0 for x in (*size, *stride, offset))
    if not plain or len(size) != len(stride) or len(size) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor of size {size!r}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 in size:
        return torch.empty(size, dtype=dtype)
    if last >= count or start + info.file_size > len(whole) or torch.Size(size).numel() > count:
        raise ValueError(f"a tensor of size {size!r} in {info.file_size} bytes")
    flat = torch.frombuffer(whole, dtype=dtype, count=count, offset=start)
    return flat.as_strided(size, stride, offset)
