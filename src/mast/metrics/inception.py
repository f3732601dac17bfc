"""Inception-v3 as FID uses it: the 2048-channel map before pooling, and its mean (pool3).

Three ways of using it, which give three different scales and must never share a column:

    fid          FID's weights (2015-12-05), TensorFlow's resize to 299 px, (x - 128) / 128: as torch-fidelity
    pytorch-fid  the same weights, torch's resize to 299 px, x / 127.5 - 1: as pytorch-fid
    artfid       ArtFID's weights (https://arxiv.org/abs/2207.12280), 512 px, x / 255: the paper's numbers
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..files import sha256
from ..job import InputError
from ..weights.checkpoints import is_script, read_checkpoint, read_script
from ..weights.registry import OnBytes, locate

DIMENSIONS = 2048
NAMES = ("fid", "pytorch-fid", "artfid")
EPSILON = 1e-3  # of the batch norms


class Conv(nn.Conv2d):
    """Convolution, batch norm (folded into weight and bias when weights are loaded), ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int | tuple[int, int], stride: int = 1, same: bool = True
    ):
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (high // 2, wide // 2) if same else (0, 0)
        super().__init__(inputs, outputs, (high, wide), stride, padding)

    def reset_parameters(self) -> None:
        """Weights are always loaded; random ones would only cost seconds."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


def _same_pool(x: Tensor, kind: str) -> Tensor:
    if kind == "max":
        return F.max_pool2d(x, 3, 1, 1)
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=kind == "average with border")


class Block(nn.Module):
    """Branches of convolutions side by side, concatenated, and a branch that pools first.

    Layers carry torchvision's names, so published state dicts load as they are. A layer whose name ends in
    `b` takes the same input as the one before it, and both go into the output (as the last blocks' 1x3 and
    3x1 pairs do).
    """

    def __init__(self, inputs: int, branches: dict[str, list[tuple]], pool: str, pool_outputs: int = 0):
        super().__init__()
        self.pool, self.chains = pool, []
        for branch, layers in branches.items():
            width, chain = inputs, []
            for i, (suffix, outputs, kernel, *options) in enumerate(layers):
                name = f"{branch}{suffix}"
                self.add_module(name, Conv(width, outputs, kernel, *options))
                chain.append(name)
                if not (i + 1 < len(layers) and layers[i + 1][0].endswith("b")):
                    width = outputs
                else:
                    width = layers[i - 1][1]
            self.chains.append(chain)
        if pool_outputs:
            self.branch_pool = Conv(inputs, pool_outputs, 1)
        self.reduces = not pool_outputs

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for chain in self.chains:
            y, before = x, x
            for name in chain:
                if name.endswith("b"):
                    outputs.append(y)
                    y = self.get_submodule(name)(before)
                else:
                    before, y = y, self.get_submodule(name)(y)
            outputs.append(y)
        outputs.append(F.max_pool2d(x, 3, 2) if self.reduces else self.branch_pool(_same_pool(x, self.pool)))
        return torch.cat(outputs, 1)


def _a(inputs: int, pooled: int, pool: str) -> Block:
    double = [("_1", 64, 1), ("_2", 96, 3), ("_3", 96, 3)]
    five = [("_1", 48, 1), ("_2", 64, 5)]
    return Block(
        inputs, {"branch1x1": [("", 64, 1)], "branch5x5": five, "branch3x3dbl": double}, pool, pooled
    )


def _b(inputs: int, pool: str) -> Block:
    double = [("_1", 64, 1), ("_2", 96, 3), ("_3", 96, 3, 2, False)]
    return Block(inputs, {"branch3x3": [("", 384, 3, 2, False)], "branch3x3dbl": double}, pool)


def _c(inputs: int, c: int, pool: str) -> Block:
    wide, high = (1, 7), (7, 1)
    seven = [("_1", c, 1), ("_2", c, wide), ("_3", 192, high)]
    double = [("_1", c, 1), ("_2", c, high), ("_3", c, wide), ("_4", c, high), ("_5", 192, wide)]
    return Block(inputs, {"branch1x1": [("", 192, 1)], "branch7x7": seven, "branch7x7dbl": double}, pool, 192)


def _d(inputs: int, pool: str) -> Block:
    three = [("_1", 192, 1), ("_2", 320, 3, 2, False)]
    seven = [("_1", 192, 1), ("_2", 192, (1, 7)), ("_3", 192, (7, 1)), ("_4", 192, 3, 2, False)]
    return Block(inputs, {"branch3x3": three, "branch7x7x3": seven}, pool)


def _e(inputs: int, pool: str) -> Block:
    three = [("_1", 384, 1), ("_2a", 384, (1, 3)), ("_2b", 384, (3, 1))]
    double = [("_1", 448, 1), ("_2", 384, 3), ("_3a", 384, (1, 3)), ("_3b", 384, (3, 1))]
    return Block(inputs, {"branch1x1": [("", 320, 1)], "branch3x3": three, "branch3x3dbl": double}, pool, 192)


class Inception(nn.Sequential):
    """(b, 3, h, w) as the weights want it -> (b, 2048, h', w') before pooling: 8x8 cells of 299 px, 14x14 of
    512 px.
    """

    def __init__(self, art: bool = False) -> None:
        pool = "average with border" if art else "average"
        super().__init__()
        layers: dict[str, nn.Module] = {
            "Conv2d_1a_3x3": Conv(3, 32, 3, 2, False),
            "Conv2d_2a_3x3": Conv(32, 32, 3, 1, False),
            "Conv2d_2b_3x3": Conv(32, 64, 3),
            "maxpool1": nn.MaxPool2d(3, 2),
            "Conv2d_3b_1x1": Conv(64, 80, 1),
            "Conv2d_4a_3x3": Conv(80, 192, 3, 1, False),
            "maxpool2": nn.MaxPool2d(3, 2),
            "Mixed_5b": _a(192, 32, pool),
            "Mixed_5c": _a(256, 64, pool),
            "Mixed_5d": _a(288, 64, pool),
            "Mixed_6a": _b(288, pool),
            "Mixed_6b": _c(768, 128, pool),
            "Mixed_6c": _c(768, 160, pool),
            "Mixed_6d": _c(768, 160, pool),
            "Mixed_6e": _c(768, 192, pool),
            "Mixed_7a": _d(768, pool),
            "Mixed_7b": _e(1280, pool),
            "Mixed_7c": _e(2048, pool if art else "max"),  # FID's network pools by maximum here
        }
        for name, layer in layers.items():
            self.add_module(name, layer)

    def load(self, state: dict[str, Tensor], path: Path) -> None:
        """Folds batch norms into the convolutions; every layer must be there, with its shape."""
        convs = {name: module for name, module in self.named_modules() if isinstance(module, Conv)}
        if "Conv2d_1a_3x3.conv.weight" not in state:
            state = _from_script(state, list(convs))
        for name, conv in convs.items():
            try:
                kernel = state[f"{name}.conv.weight"]
                mean, variance = state[f"{name}.bn.running_mean"], state[f"{name}.bn.running_var"]
                shift = state[f"{name}.bn.bias"]
            except KeyError as error:
                raise InputError(
                    f"{path}: no {error.args[0]}; these are not Inception-v3's weights"
                ) from error
            if kernel.shape != conv.weight.shape:
                raise InputError(
                    f"{path}: {name} is {tuple(kernel.shape)}, not {tuple(conv.weight.shape)}; "
                    "these are not Inception-v3's weights"
                )
            scale = state.get(f"{name}.bn.weight", torch.ones_like(mean)).double()
            scale = scale / (variance.double() + EPSILON).sqrt()
            conv.weight.data = (kernel.double() * scale.view(-1, 1, 1, 1)).float()
            assert conv.bias is not None
            conv.bias.data = (shift.double() - mean.double() * scale).float()


def _from_script(state: dict[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    """The TorchScript file's (weight, beta, mean, var) groups come in the order of our layers."""
    groups = list(dict.fromkeys(name.rpartition(".")[0] for name in state))
    fields = {"conv.weight": "weight", "bn.bias": "beta", "bn.running_mean": "mean", "bn.running_var": "var"}
    return {
        f"{ours}.{field}": state[f"{theirs}.{name}"]
        for ours, theirs in zip(names, groups, strict=False)
        for field, name in fields.items()
        if f"{theirs}.{name}" in state
    }


class InceptionEncoder:
    """An Inception and how it wants its pictures; its weights are read when the first picture comes.

    `fingerprint` names the weights in caches and reports; `grid` is (rows, columns) of the map of a picture.
    """

    def __init__(self, name: str, path: Path, device: str | torch.device = "cpu"):
        self.name, self.path, self.device = name, path, torch.device(device)
        self.size, self.grid = (512, (14, 14)) if name == "artfid" else (299, (8, 8))
        self.fingerprint = sha256(path)[:16]

    @cached_property
    def network(self) -> Inception:
        network = Inception(self.name == "artfid")
        network.load(
            read_script(self.path) if is_script(self.path) else read_checkpoint(self.path), self.path
        )
        network.eval().requires_grad_(False).to(self.device)
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.inference_mode()
    def maps(self, images: Sequence[Tensor]) -> Tensor:
        """Pictures (3, h, w) of any sizes in 0..255 -> features (b, cells, 2048), cells row by row."""
        x = torch.cat([self._fit(image.unsqueeze(0).to(self.device, torch.float32)) for image in images])
        features = self.network(x.contiguous(memory_format=torch.channels_last))
        return features.flatten(2).transpose(1, 2).contiguous().cpu()

    def _fit(self, x: Tensor) -> Tensor:
        """(1, 3, h, w) in 0..255 -> (1, 3, size, size) as the weights want it; aspect is given up."""
        size = (self.size, self.size)
        if self.name == "fid":
            return (resize_like_tensorflow(x, size) - 128) / 128
        if tuple(x.shape[-2:]) != size:
            x = F.interpolate(
                x, size=size, mode="bilinear", align_corners=False, antialias=self.name == "artfid"
            )
        return x / 255 if self.name == "artfid" else x / 127.5 - 1


def resize_like_tensorflow(x: Tensor, size: tuple[int, int]) -> Tensor:
    """TensorFlow 1's bilinear resize, as FID was made with: corners at 0, no shift of half a pixel."""
    for axis, target in ((-2, size[0]), (-1, size[1])):
        source = x.shape[axis]
        if source == target:
            continue
        at = torch.arange(target, dtype=torch.float64) * (source / target)
        low = at.floor().long().clamp(max=source - 1)
        share = (at - low).to(x).view([-1, 1] if axis == -2 else [-1])
        below = x.index_select(axis, low.to(x.device))
        above = x.index_select(axis, (low + 1).clamp(max=source - 1).to(x.device))
        x = below + (above - below) * share
    return x


def load_inception(
    name: str = "fid",
    weights: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    on_bytes: OnBytes | None = None,
) -> InceptionEncoder:
    """The encoder of that name; `weights` is a path, else they are found or fetched (see mast.weights)."""
    if name not in NAMES:
        raise InputError(f"no Inception is called {name!r}; choose one of {', '.join(NAMES)}")
    path = locate("art-inception" if name == "artfid" else "fid-inception", weights, on_bytes)
    return InceptionEncoder(name, path, device)
