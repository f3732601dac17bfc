"""Weight files, read without running anything they contain: TorchScript archives, state dicts, pickled numpy
arrays.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..job import InputError
from .registry import weights_folder

LISTED = 5  # differences that an error spells out

# Exact names, not all of numpy: it has functions that run a string as code. Newer ones moved core to _core.
ARRAYS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}


class _Arrays(pickle.Unpickler):
    """Builds numpy arrays and plain containers; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ARRAYS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def read_arrays(path: Path) -> dict[str, Any]:
    """A pickle of nested dictionaries of numpy arrays."""
    try:
        with path.open("rb") as file:
            content = _Arrays(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(f"{path}: not a file of plain arrays ({error}); fetch it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds a {type(content).__name__}, not named arrays; fetch it again")
    return content


class _Module:
    """Stands for whatever class a TorchScript archive names: its attributes, and none of its code."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _Script(pickle.Unpickler):
    """The attribute tree of a TorchScript archive; tensors are rebuilt from its float32 storages."""

    def __init__(self, archive: zipfile.ZipFile, root: str):
        super().__init__(io.BytesIO(archive.read(f"{root}/data.pkl")))
        self.archive, self.root = archive, root

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("__torch__."):
            return _Module
        known = {
            ("torch", "FloatStorage"): "float32",
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("collections", "OrderedDict"): OrderedDict,
            ("torch.jit._pickle", "build_intlist"): list,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        _, _, key, _, count = pid
        values = np.frombuffer(self.archive.read(f"{self.root}/data/{int(key)}"), "<f4")
        if len(values) != count:
            raise pickle.UnpicklingError(f"tensor {key} has {len(values)} values, not {count}")
        return values


def _tensor(
    values: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> Tensor:
    return torch.from_numpy(values.copy()).as_strided(size, stride, offset).clone()


def read_script(path: Path) -> dict[str, Tensor]:
    """The tensors of a TorchScript archive by their dotted names, in the order the modules were made."""
    try:
        with zipfile.ZipFile(path) as archive:
            root = next(name for name in archive.namelist() if name.endswith("/data.pkl")).split("/")[0]
            tree = _Script(archive, root).load()
    except (
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        StopIteration,
        KeyError,
        ValueError,
        EOFError,
    ) as error:
        raise InputError(
            f"{path}: not a TorchScript archive of plain tensors ({error}); fetch it again"
        ) from error
    tensors: dict[str, Tensor] = {}
    _collect(tree, "", tensors)
    return tensors


def _collect(module: Any, prefix: str, tensors: dict[str, Tensor]) -> None:
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            tensors[prefix + name] = value
        elif isinstance(value, _Module):
            _collect(value, f"{prefix}{name}.", tensors)


def is_script(path: Path) -> bool:
    """Whether a file is a TorchScript archive rather than a state dict (both may be zip files)."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def find_checkpoint(
    given: str | os.PathLike[str] | None, files: Sequence[str], what: str, way_out: str
) -> Path:
    """The first of these files in the folder given, or beside the file given, or in mast's weights folder.

    files: the names its authors use, usual one first; way_out: how to get it, for the error.
    """
    folder = weights_folder() if given is None else Path(given)
    if folder.is_file():
        folder = folder.parent
    for file in files:
        if (folder / file).is_file():
            return folder / file
    raise InputError(f"{folder / files[0]}: no such file ({what}); {way_out}")


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth, .pt or .safetensors file, by name; nothing else in it is ever run."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch's own message tells how to run what is in the file
        raise InputError(
            f"{path}: not a checkpoint of tensors (damaged, or it asks to run code, which is never done); "
            "get it again from its authors"
        ) from error
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a checkpoint of tensors ({first}); get it again") from error
    for wrapper in ("state_dict", "model_state_dict", "params"):
        if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
            found = found[wrapper]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{path}: holds {type(found).__name__}, not tensors by name")
    return {name.removeprefix("module."): value for name, value in found.items()}


def load_checked(network: nn.Module, tensors: Mapping[str, Tensor], path: Path, what: str) -> nn.Module:
    """Loads tensors whose names and shapes are exactly the network's; else an error says which differ."""
    expected = network.state_dict()
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} is not known" for name in tensors if name not in expected]
    problems += [
        f"{name} is {tuple(tensors[name].shape)}, expected {tuple(value.shape)}"
        for name, value in expected.items()
        if name in tensors and tensors[name].shape != value.shape
    ]
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise InputError(f"{path}: not {what}: {'; '.join(problems[:LISTED])}{more}")
    # Copied, for what safetensors reads is still the file; assigned, for the network may be on "meta" so far.
    own = {name: tensors[name].to(value.dtype, copy=True) for name, value in expected.items()}
    network.load_state_dict(own, assign=True)
    return network
