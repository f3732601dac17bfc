"""Regions from whatever somebody has: one function reads masks, folders of them, maps of colours or numbers,
annotations and layered files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..core import masks as core_masks
from ..images import COLOUR_TOLERANCE, PICTURES, read_mask, split_colour
from ..images.decoding import open_picture
from ..job import InputError
from .coco import read_coco
from .labels import at_size, codes, read_array, read_labels
from .layers import read_layers
from .masks import match_size
from .partition import BACKGROUND, SMALLEST_SHARE, NamedMasks, distinct_names, interior
from .show import MAP, OVERLAY
from .sources import annotated_objects, pictures

MOST = 64  # regions of one map; a photo taken for a map has more colours
LEVELS = 256  # grey levels from which on a 16-bit picture is a soft mask and no label map
LEVELS_8 = 64  # the same of an 8-bit one
THIN = 0.3  # share of a colour's pixels that must be inside its region, and not at its rim
EDGES = 0.25  # of a map's pixels that may lie between its colours

Part = tuple[str, np.ndarray]


def read_regions(
    given: Sequence[str | os.PathLike[str]], photo: Path, size: tuple[int, int], notes: list[str]
) -> NamedMasks:
    """The regions of a photo (w, h) from any number of sources, at the photo's size, each with its own name.

    A source is one of: a mask; MAP.png#rrggbb; a colour map, an indexed or a grey picture of labels, .npy,
    .mat; a folder of masks; COCO's .json; .psd, .ora. What was passed over is added to the notes.
    """
    if not given:
        raise InputError("no regions given; add -r with a mask, a folder of masks, or a map")
    parts = [part for source in given for part in parts_of(source, photo, size, notes)]
    names = distinct_names([name for name, _ in parts])
    fitted = [match_size(part[1], size, name, "the photo") for name, part in zip(names, parts, strict=True)]
    masks = np.stack(fitted)
    core_masks.verify(torch.from_numpy(masks), names)
    return NamedMasks(tuple(names), masks)


def parts_of(
    source: str | os.PathLike[str], photo: Path, size: tuple[int, int], notes: list[str]
) -> list[Part]:
    """The names and masks of one source; names may come twice, and masks have their own size."""
    path, colour = split_colour(source)
    suffix = path.suffix.lower()
    if colour is not None:
        return [("#{:02x}{:02x}{:02x}".format(*colour), read_mask(source))]
    if path.is_dir():
        return _folder(path, photo, notes)
    if suffix == ".json":
        objects = annotated_objects(read_coco(path), path, photo, size)
        if not objects:
            raise InputError(f"{path}: {photo.name} has no annotation in it")
        return [(one.name + "-crowd" * one.crowd, mask.astype(np.float32)) for one, mask in objects]
    if suffix in (".psd", ".psb", ".ora"):
        parts, passed = read_layers(path)
        notes += passed
        return parts
    if suffix == ".mat":
        return _labelled(read_labels(path), size, path)
    if suffix == ".npy":
        array = read_array(path)
        if array.dtype.kind in "fb":
            return [(own_name(path, photo), read_mask(array))]
        return _labelled(read_labels(path), size, path)
    return _picture(path, photo, size)


def own_name(path: Path, photo: Path) -> str:
    """What a file is called, without the photo's name before it."""
    return path.stem.removeprefix(f"{photo.stem}-") or path.stem


def _folder(folder: Path, photo: Path, notes: list[str]) -> list[Part]:
    """A mask a file. Where some are called PHOTO-REGION, the others belong to other photos."""
    files = pictures(folder)
    own = [path for path in files if path.stem.startswith(f"{photo.stem}-")]
    parts = []
    for path in sorted(own or files, key=lambda path: (own_name(path, photo) == BACKGROUND, path.stem)):
        if _colourful(open_picture(path, "mask")):
            if path.name not in (MAP, OVERLAY):
                notes.append(f"{path}: a picture in colours, not a mask; left out")
        else:
            parts.append((own_name(path, photo), read_mask(path)))
    if not parts:
        raise InputError(f"{folder}: no masks in it; a region is a grey {PICTURES[0]}, white where it is")
    return parts


# ------------------------------------------------------------ pictures


def _picture(path: Path, photo: Path, size: tuple[int, int]) -> list[Part]:
    """A mask, or a map: of colours where it has any, of labels where it has few grey levels and no white."""
    opened = open_picture(path, "mask or map")
    if _colourful(opened):
        return _coloured(opened, path, size)
    raw = np.asarray(opened)
    if opened.mode != "P" and raw.ndim == 2 and raw.dtype.kind in "ui":
        levels = np.unique(raw)
        wide = raw.dtype.itemsize > 1
        white = levels[-1] == (65535 if wide else 255) or (wide and not (levels % 257).any())
        if not white and 2 < len(levels) <= (LEVELS if wide else LEVELS_8):
            return _labelled(read_labels(path), size, path)
    mask = read_mask(path)
    if np.ptp(mask) == 0 and mask.max() > 0:
        raise InputError(f"{path}: one colour everywhere; a map needs two, and a mask black around its white")
    return [(own_name(path, photo), mask)]


def _colourful(opened: Image.Image) -> bool:
    """Whether a picture is more than grey; a mask saved by a JPEG's rules still is grey."""
    if opened.mode in ("1", "L", "LA", "F") or opened.mode.startswith("I"):
        return False
    pixels = np.asarray(opened.convert("RGBA")).astype(np.int16)
    spread = np.ptp(pixels[..., :3], axis=-1) * (pixels[..., 3] > 0)
    return float((spread > COLOUR_TOLERANCE).mean()) > SMALLEST_SHARE


def _coloured(opened: Image.Image, path: Path, size: tuple[int, int]) -> list[Part]:
    """A region for every colour but black; pixels between two colours go to the nearer one."""
    rgba = np.asarray(opened.convert("RGBA"))
    pixels = np.where(rgba[..., 3:] >= 128, rgba[..., :3], 0)
    code = codes(pixels)
    values, inverse, counts = np.unique(code, return_inverse=True, return_counts=True)
    main = np.flatnonzero(counts >= SMALLEST_SHARE * code.size)
    main = main[np.argsort(-counts[main], kind="stable")]
    spread = np.stack([values >> 16 & 255, values >> 8 & 255, values & 255], -1).astype(np.int32)
    kept: list[int] = []
    for i in main:  # shades of one colour, as a JPEG has them, are one
        if all(np.abs(spread[i] - spread[k]).max() > COLOUR_TOLERANCE for k in kept):
            kept.append(int(i))
    if not 0 < len(kept) <= MOST or not _flat(spread, counts, kept):
        raise InputError(
            f"{path}: {len(values):,} colours; this is a picture and no map, which has one flat colour a "
            "region"
        )
    if len(kept) == 1:
        raise InputError(
            f"{path}: one colour everywhere; a map needs two or more (black counts as no region)"
        )
    labels = _nearest(spread, kept)[inverse].reshape(code.shape)
    inside = np.bincount(labels.ravel(), interior(labels).ravel(), len(kept))
    thin = inside < THIN * np.bincount(labels.ravel(), minlength=len(kept))  # a JPEG's fringes
    kept = [k for k, edge in zip(kept, thin, strict=True) if not edge] or kept
    labels = at_size(_nearest(spread, kept)[inverse].reshape(code.shape), size, str(path))
    return [
        (f"#{values[k]:06x}", (labels == number).astype(np.float32))
        for number, k in enumerate(kept)
        if np.abs(spread[k]).max() > COLOUR_TOLERANCE
    ]


def _nearest(spread: np.ndarray, kept: list[int]) -> np.ndarray:
    """Of every colour (n, 3) the number of the one among those kept that is most like it."""
    return np.abs(spread[:, None] - spread[kept][None]).sum(-1).argmin(1)


def _flat(spread: np.ndarray, counts: np.ndarray, kept: list[int]) -> bool:
    """Whether most pixels have about one of the colours kept."""
    near = (np.abs(spread[:, None] - spread[kept][None]).max(-1) <= COLOUR_TOLERANCE).any(1)
    return float(counts[near].sum()) >= (1 - EDGES) * float(counts.sum())


def _labelled(labels: np.ndarray, size: tuple[int, int], path: Path) -> list[Part]:
    """A region for every number but 0 that covers enough of the photo."""
    values, counts = np.unique(labels, return_counts=True)
    if len(values) == 1:
        raise InputError(f"{path}: one number everywhere ({values[0]}); a label map has two or more")
    large = [int(value) for value in values[counts >= SMALLEST_SHARE * labels.size] if value]
    if not 0 < len(large) <= MOST:
        raise InputError(
            f"{path}: {len(values):,} numbers, {len(large)} of them with more than {SMALLEST_SHARE:.2%} of "
            f"the map; a label map has 1 to {MOST} regions of that size"
        )
    fitted = at_size(labels, size, str(path))
    return [(f"label-{value}", (fitted == value).astype(np.float32)) for value in large]
