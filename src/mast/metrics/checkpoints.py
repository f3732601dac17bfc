"""Weight files, read without running anything they contain: TorchScript archives, state dicts, pickled numpy
arrays.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..job import InputError

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


def read_state(path: Path) -> dict[str, Tensor]:
    """A state dict saved by torch, or its safetensors form."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: not a file of weights that can be read safely ({first})") from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path}: holds no state dict; give the published file")
    return {name.removeprefix("module."): value for name, value in state.items()}


def is_script(path: Path) -> bool:
    """Whether a file is a TorchScript archive rather than a state dict (both may be zip files)."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())
