"""The weights of one part of a model folder: found under any of their names, read, and put in place strictly.

diffusers and transformers fill a tensor that a file lacks with noise and a warning. Here every tensor must be
there, and of its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..files import open_regular
from ..job import InputError
from ..weights.checkpoints import load_checked, read_checkpoint
from .configs import read_object
from .rules import Config

VARIANTS = ("", ".fp16", ".bf16")  # 16-bit weights are taken where nothing better is there
INDEX_BYTES = 16 << 20
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Parts:
    """What a backbone is put together from, on the CPU in float32. prompt: (1, tokens, channels)."""

    unet: Any
    autoencoder: Any
    scheduler: Config
    prompt: Tensor
    defaults: dict[str, Any]


def weight_files(names: Iterable[str], stems: Sequence[str]) -> list[str]:
    """Which of a folder's file names hold a part's weights, in the best variant; [] if there are none.

    A part in pieces is named by its index, model.safetensors.index.json (or .index.fp16.json).
    """
    there = set(names)
    for variant in VARIANTS:
        for stem in stems:
            if f"{stem}{variant}.safetensors" in there:
                return [f"{stem}{variant}.safetensors"]
            if f"{stem}.safetensors.index{variant}.json" in there:
                pieces = sorted(
                    name
                    for name in there
                    if name.startswith(f"{stem}{variant}-0") and name.endswith(".safetensors")
                )
                return [f"{stem}.safetensors.index{variant}.json", *pieces]
    return [name for name in (f"{stem}.bin" for stem in stems) if name in there][:1]


def read_weights(folder: Path, stems: Sequence[str]) -> dict[str, Tensor]:
    """All tensors of a part by name. stems: what its weights may be called, without variant and suffix."""
    found = weight_files((path.name for path in folder.iterdir()), stems) if folder.is_dir() else []
    if not found:
        raise InputError(
            f"{folder / stems[0]}.safetensors: not there, nor as .fp16.safetensors; the model's weights are "
            "missing, fetch it again"
        )
    if not found[0].endswith(".json"):
        return read_tensors(folder / found[0])
    tensors: dict[str, Tensor] = {}
    for name in pieces(folder / found[0]):
        tensors |= read_tensors(folder / name)
    return tensors


def pieces(index: Path) -> list[str]:
    """The files beside an index that it says hold the weights."""
    files = read_object(index, INDEX_BYTES).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise InputError(f"{index}: no weight_map from tensors to files; fetch it again")
    for name in files.values():
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(
                f"{index}: names {name!r}, which is no file of weights beside it; fetch it again"
            )
    return sorted(set(files.values()))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A file of tensors; nothing in it is ever run."""
    open_regular(path, "model").close()
    if path.suffix != ".safetensors":
        return read_checkpoint(path)
    try:
        return load_file(path)
    except Exception as error:  # of safetensors, or of torch where it knows a kind of number too few
        raise InputError(f"{path}: damaged ({first_line(error)}); fetch it again") from error


def filled(make: Callable[[], Module], tensors: Mapping[str, Tensor], source: Path, what: str) -> Module:
    """A module with exactly these weights, in float32. source, what: where and what they are, for errors.

    It is made without memory first, so neither a wild config nor the random start of its weights costs any.
    """
    try:
        with torch.device("meta"):
            module = make()
    except Exception as error:  # whatever the class makes of numbers that do not go together
        raise InputError(f"{source}: no model can be built from its config ({first_line(error)})") from error
    odd = next((name for name, value in tensors.items() if not value.is_floating_point()), None)
    if odd is not None:
        raise InputError(f"{source}: not {what}: {odd} holds {tensors[odd].dtype}, not plain numbers")
    load_checked(module, tensors, source, what)
    return module


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
