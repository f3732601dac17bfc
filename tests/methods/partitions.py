"""Pictures and partitions for the tests of compositing."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from mast.methods.compositing import blur, gaussian

needs_opencv = pytest.mark.skipif(find_spec("cv2") is None, reason="OpenCV is not installed")


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def smooth(height: int, width: int, seed: int = 0) -> np.ndarray:
    return blur(noise(height, width, seed), gaussian(9, 2.0)).round().astype(np.uint8)


def tiles(height: int, width: int, n: int, seed: int = 0, cell: int = 8) -> np.ndarray:
    """A random partition in blocks; some regions have several parts, some none."""
    rows, columns = -(-height // cell), -(-width // cell)
    owner = np.random.default_rng(seed).integers(0, n, (rows, columns)).repeat(cell, 0).repeat(cell, 1)
    return (owner[:height, :width] == np.arange(n).reshape(-1, 1, 1)).astype(np.float32)


def inside(height: int, width: int, rows: slice, columns: slice) -> np.ndarray:
    """Two masks: a rectangle, which is the second region, and the rest."""
    masks = np.zeros((2, height, width), np.float32)
    masks[1, rows, columns] = 1
    masks[0] = 1 - masks[1]
    return masks


def farthest(a: np.ndarray, b: np.ndarray) -> int:
    return int(np.abs(a.astype(int) - b.astype(int)).max())
