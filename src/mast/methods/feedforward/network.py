"""What all feed-forward methods share: pictures in, picture out, and a checkpoint that is checked name by
name before it is trusted.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...job import InputError
from ...weights import weights_folder
from ..method import Method

LISTED = 5  # differences that an error spells out


@dataclass(frozen=True)
class FeedForward(Method):
    """A method that needs networks of its own instead of a diffusion model.

    The networks are loaded by `ready` when a run begins, so that an object with wrong options, or a list of
    methods, costs nothing.
    """

    needs = "its own weights"
    stride = 8  # picture sides are made multiples of this

    _networks: dict[str, nn.Module] = field(default_factory=dict, init=False, repr=False, compare=False)

    @abstractmethod
    def load(self) -> dict[str, nn.Module]:
        """The networks by name, in evaluation mode; an InputError that says where to get a missing file."""

    @abstractmethod
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        """content (1, 3, h, w) and styles (1, 3, h_i, w_i) in [0, 1], masks (N, h, w), style masks (h_i, w_i)
        -> picture (1, 3, h, w), nominally in [0, 1].

        A single-style method is called with one style. A global one may ignore the mask, which is full.
        """

    def ready(self, device: torch.device) -> None:
        """Loads the networks, once, onto the device."""
        if not self._networks:
            self._networks.update(self.load())
        for network in self._networks.values():
            network.eval().requires_grad_(False).to(device)

    def network(self, name: str) -> Any:
        return self._networks[name]

    @property
    def fingerprint(self) -> str:
        """sha256 over the weights, 16 hex digits."""
        digest = hashlib.sha256()
        for name, network in sorted(self._networks.items()):
            for key, value in sorted(network.state_dict().items()):
                digest.update(f"{name}.{key}{tuple(value.shape)}".encode())
                digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


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
    network.load_state_dict({name: tensors[name].float() for name in expected})
    return network
