"""LPIPS v0.1 (https://arxiv.org/abs/1801.03924), on AlexNet or VGG-16."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..files import sha256
from ..job import InputError
from ..weights.checkpoints import read_arrays
from ..weights.registry import OnBytes, locate

NETS = ("alex", "vgg")
# The metric's own normalisation of images in [-1, 1]: ImageNet's mean and deviation.
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
# (stride, padding, kernel and stride of a max-pool before it), one a convolution
ALEX = ((4, 2, None), (1, 2, (3, 2)), (1, 1, (3, 2)), (1, 1, None), (1, 1, None))
VGG = tuple((1, 1, (2, 2) if i in (2, 4, 7, 10) else None) for i in range(13))
TAPS = {"alex": (0, 1, 2, 3, 4), "vgg": (1, 3, 6, 9, 12)}


class Lpips:
    """The distance of two pictures: squared differences of unit features, weighted by the learned heads."""

    def __init__(self, net: str, arrays: dict[str, Any], path: Path, device: str | torch.device = "cpu"):
        self.net, self.device = net, torch.device(device)
        self.fingerprint = sha256(path)[:16]
        self.plan = ALEX if net == "alex" else VGG
        self.shift = torch.tensor(SHIFT, device=device).view(1, 3, 1, 1)
        self.scale = torch.tensor(SCALE, device=device).view(1, 3, 1, 1)
        layers = read_layers(arrays, net, len(self.plan), path)
        self.layers = [(kernel.to(device), bias.to(device)) for kernel, bias in layers]
        try:
            heads = [arrays[f"NetLinLayer_{i}"]["Conv_0"]["kernel"] for i in range(5)]
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: no linear heads; this is not LPIPS' file for {net}") from error
        self.heads = [torch.tensor(head).view(1, -1, 1, 1).to(device) for head in heads]

    def features(self, images: Tensor) -> list[Tensor]:
        """(b, 3, h, w) in [-1, 1] -> five maps (b, c, h', w'), unit length over channels."""
        x = (images.to(self.device, torch.float32) - self.shift) / self.scale
        x = x.contiguous(memory_format=torch.channels_last)
        found = []
        for i, ((kernel, bias), (stride, padding, pool)) in enumerate(
            zip(self.layers, self.plan, strict=True)
        ):
            if pool is not None:
                x = F.max_pool2d(x, *pool)
            x = F.relu(F.conv2d(x, kernel, bias, stride, padding), inplace=True)
            if i in TAPS[self.net]:
                found.append(x / (x.pow(2).sum(1, keepdim=True).sqrt() + 1e-10))
        return found

    @torch.inference_mode()
    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Distances (b,) of pictures (b, 3, h, w) in [-1, 1], of any sides that the network survives."""
        if a.shape != b.shape:
            raise InputError(
                f"LPIPS compares pictures of one size, not {tuple(a.shape)} and {tuple(b.shape)}"
            )
        total = torch.zeros(len(a), device=self.device)
        for x, y, head in zip(self.features(a), self.features(b), self.heads, strict=True):
            total += ((x - y).pow(2) * head).sum(1).mean((1, 2))
        return total.cpu()

    def of_levels(self, a: Tensor, b: Tensor) -> Tensor:
        """The same for pictures in [0, 1]."""
        return self(a * 2 - 1, b * 2 - 1)


def read_layers(arrays: dict[str, Any], net: str, count: int, path: Path) -> list[tuple[Tensor, Tensor]]:
    """The first `count` convolutions of a file's backbone: kernel (out, in, h, w) and bias (out)."""
    backbone = arrays.get("AlexNet_0" if net == "alex" else "VGG16_0")
    if not isinstance(backbone, dict):
        raise InputError(f"{path}: holds {', '.join(map(str, arrays))}; this is not LPIPS' file for {net}")
    layers = []
    for i in range(count):
        layer = backbone[f"Conv_{i}"]
        kernel = torch.tensor(layer["kernel"]).permute(3, 2, 0, 1)  # stored as (h, w, in, out)
        layers.append((kernel.contiguous(memory_format=torch.channels_last), torch.tensor(layer["bias"])))
    return layers


def load_lpips(
    net: str = "alex",
    weights: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    on_bytes: OnBytes | None = None,
) -> Lpips:
    """LPIPS on `net`, alex or vgg; `weights` is a path, else they are found or fetched (see mast.weights)."""
    if net not in NETS:
        raise InputError(f"LPIPS has no network {net!r}; choose one of {', '.join(NETS)}")
    path = locate(f"lpips-{net}", weights, on_bytes)
    return Lpips(net, read_arrays(path), path, device)
