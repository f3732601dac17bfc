"""Label maps: a number or a colour for every region, in the formats people have them in.

Numbers come from grey, 16-bit and indexed pictures, NumPy's .npy and MATLAB's .mat (as BSDS has them),
colours from any other picture. 0 and black are no region.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..images import COLOUR_TOLERANCE, LARGEST, read_rgb
from ..images.decoding import open_picture
from ..job import InputError
from .masks import ASPECT_TOLERANCE
from .matlab import read_mat

COLOURS = ("RGB", "RGBA", "LA", "PA", "CMYK", "YCbCr")  # modes of pictures that are more than numbers
SMALLEST_COLOUR = 0.001  # of the map; colours that cover less are edges between others
SUFFIXES = (".png", ".npy", ".mat", ".tif", ".tiff")  # of label maps in a folder, first come first served


def read_labels(path: Path) -> np.ndarray:
    """int64 (h, w): the numbers of a map; colours are counted from 1 in the order of their values, black
    being 0. Of a .mat with several people's segmentations, the first.
    """
    if path.suffix.lower() == ".mat":
        return read_segmentations(path)[0]
    if path.suffix.lower() == ".npy":
        raw = read_array(path)
        if raw.dtype.kind not in "uib":
            raise InputError(f"{path}: an array of {raw.dtype}; a label map holds whole numbers")
        return _whole(raw)
    opened = open_picture(path, "label map")
    if opened.mode not in COLOURS:
        raw = np.asarray(opened)
        if raw.ndim != 2 or raw.dtype.kind not in "uib":
            raise InputError(f"{path}: not a label map; save it as a grey, palette or RGB PNG")
        return _whole(raw)
    code = codes(np.asarray(opened.convert("RGB")))
    values, inverse = np.unique(code, return_inverse=True)
    return inverse.reshape(code.shape) + int(values[0] != 0)


def read_array(path: Path) -> np.ndarray:
    """A two-dimensional array of an .npy file; nothing in it is ever run."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the path of the label map")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # a size that the file has not is refused
    except Exception as error:  # a damaged header fails in many ways
        raise InputError(f"{path}: not a NumPy array of numbers; write it with numpy.save") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or not 0 < array.size <= LARGEST:
        shape = getattr(array, "shape", "of several")
        raise InputError(f"{path}: an array {shape}; a map has rows and columns")
    return np.array(array)


def read_segmentations(path: Path) -> list[np.ndarray]:
    """Every segmentation int64 (h, w) of a .mat file: BSDS has one of each person who drew it. A file without
    the name `Segmentation` may hold plain maps.
    """
    variables = read_mat(path)
    found = [one for variable in variables for one in _segmentations(variable)] or variables
    maps = [_whole(one) for one in found if isinstance(one, np.ndarray) and _is_map(one)]
    if not maps:
        raise InputError(
            f"{path}: holds no segmentation (a field Segmentation, or an array of whole numbers)"
        )
    return maps


def _segmentations(value: Any) -> Iterator[Any]:
    """Every `Segmentation` inside MATLAB's cells and structures."""
    if isinstance(value, list):
        for inner in value:
            yield from _segmentations(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from [inner] if name == "Segmentation" else _segmentations(inner)


def _is_map(values: np.ndarray) -> bool:
    """Whether it has rows and columns of whole numbers; MATLAB keeps these as floats, too."""
    if values.ndim != 2 or min(values.shape) < 2:
        return False
    return values.dtype.kind in "ui" or bool((np.isfinite(values) & (values == np.round(values))).all())


def _whole(raw: np.ndarray) -> np.ndarray:
    """Any whole numbers as int64; those that do not fit are numbered anew."""
    if raw.dtype.kind in "uf" and raw.itemsize >= 4 and np.abs(raw).max(initial=0) >= 2**62:
        values, inverse = np.unique(raw, return_inverse=True)
        return inverse.reshape(raw.shape) + int(values[0] != 0)
    return raw.astype(np.int64)


def codes(pixels: np.ndarray) -> np.ndarray:
    """One number for each colour of uint8 (h, w, 3): 0xrrggbb."""
    wide = pixels.astype(np.int64)
    return wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]


def at_size(labels: np.ndarray, size: tuple[int, int], name: str) -> np.ndarray:
    """Labels (h, w) at (w, h) of their photo: the nearest, never one in between."""
    height, width = labels.shape
    if (width, height) == size:
        return labels
    if abs((width / height) / (size[0] / size[1]) - 1) > ASPECT_TOLERANCE:
        raise InputError(f"{name}: {width}x{height} has another shape than the photo ({size[0]}x{size[1]})")
    rows = ((np.arange(size[1]) + 0.5) * height / size[1]).astype(int)
    columns = ((np.arange(size[0]) + 0.5) * width / size[0]).astype(int)
    return labels[rows][:, columns]


# ------------------------------------------------------------ colours


def colour_shares(
    path: Path, wanted: Sequence[tuple[int, int, int]]
) -> tuple[list[float], list[tuple[str, float]]]:
    """The share of the map each wanted colour covers, and the other colours ("#rrggbb", share), largest
    first.
    """
    pixels = np.asarray(read_rgb(path, "map")).reshape(-1, 3)
    free = np.ones(len(pixels), bool)
    shares = []
    for rgb in wanted:
        near = np.abs(pixels.astype(np.int16) - np.array(rgb, np.int16)).max(1) <= COLOUR_TOLERANCE
        shares.append(float(near.mean()))
        free &= ~near
    colours, counts = np.unique(pixels[free], axis=0, return_counts=True)
    order = np.argsort(-counts)
    others = [("#{:02x}{:02x}{:02x}".format(*colours[i]), float(counts[i] / len(pixels))) for i in order]
    return shares, [(name, share) for name, share in others if share >= SMALLEST_COLOUR]
