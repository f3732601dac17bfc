"""A photo in three upright parts, as every format writes them, and how they are read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from mast.regions.partition import NamedMasks
from mast.regions.read import read_regions

W, H = 48, 32
PHOTO = Path("photo.jpg")
COLOURS = np.array([(0, 0, 0), (230, 159, 0), (86, 180, 233)], np.uint8)


def read(*given: Path | str, notes: list[str] | None = None, size: tuple[int, int] = (W, H)) -> NamedMasks:
    return read_regions([str(one) for one in given], PHOTO, size, [] if notes is None else notes)


def thirds() -> np.ndarray:
    """0 on the left, 1 in the middle, 2 on the right."""
    return np.repeat(np.arange(3), W // 3)[None].repeat(H, 0)


def save(pixels: np.ndarray, path: Path, **options: object) -> Path:
    Image.fromarray(pixels).save(path, **options)
    return path


def assert_thirds(found: NamedMasks, names: tuple[str, ...]) -> None:
    assert found.names == names
    for mask, number in zip(found.masks, (1, 2), strict=True):
        assert np.array_equal(mask, thirds() == number)


def bsds(path: Path, maps: Sequence[np.ndarray]) -> Path:
    """As BSDS500 has them: a row of cells, each a structure with Segmentation and Boundaries."""
    from scipy.io import savemat

    cells = np.empty((1, len(maps)), object)
    for i, labels in enumerate(maps):
        entry = np.empty((1, 1), [("Segmentation", object), ("Boundaries", object)])
        entry[0, 0] = (labels.astype(np.uint16), (labels > 0).astype(np.uint8))
        cells[0, i] = entry
    savemat(path, {"groundTruth": cells})
    return path
