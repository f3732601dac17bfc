"""COCO annotations: a file's photos and their objects, and every way COCO writes a mask, decoded here.

Segmentations are polygons (one object may have several, which are united), run lengths as a list of counts,
or run lengths as COCO's compressed string. Run lengths go down the columns and begin with the zeros.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..job import InputError


@dataclass(frozen=True)
class Annotation:
    """One annotated object, still encoded. A crowd is a group that nobody took apart."""

    id: int
    name: str
    crowd: bool
    segmentation: Any

    def mask(self, size: tuple[int, int]) -> np.ndarray:
        """bool (h, w) for (w, h) of the photo."""
        try:
            return decode(self.segmentation, size)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise InputError(
                f"annotation {self.id} ({self.name}): its segmentation is damaged ({error})"
            ) from (error)


@dataclass(frozen=True)
class Photo:
    """A photo as the annotation file knows it; size is (w, h)."""

    file_name: str
    size: tuple[int, int]
    annotations: tuple[Annotation, ...]


def read_coco(path: Path) -> dict[str, list[Photo]]:
    """The file's photos by the last part of their file name; more than one photo may share a name."""
    if not path.is_file():
        raise InputError(f"{path}: no such annotation file; give COCO's instances_*.json")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON, or cut short ({error}); copy the annotation file again"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not isinstance(data, dict) or not isinstance(data.get("images"), list):
        raise InputError(f"{path}: not COCO annotations ('images' is missing); give COCO's instances_*.json")
    if not isinstance(data.get("annotations"), list):
        raise InputError(
            f"{path}: not COCO annotations ('annotations' is missing); give COCO's instances_*.json"
        )
    try:
        names = {entry["id"]: str(entry["name"]) for entry in data.get("categories", [])}
        of_photo: dict[Any, list[Annotation]] = defaultdict(list)
        for entry in data["annotations"]:
            name = names.get(entry.get("category_id"), "object")
            of_photo[entry["image_id"]].append(
                Annotation(entry["id"], name, bool(entry.get("iscrowd", 0)), entry.get("segmentation"))
            )
        photos: dict[str, list[Photo]] = defaultdict(list)
        for entry in data["images"]:
            size = (int(entry["width"]), int(entry["height"]))
            found = Photo(str(entry["file_name"]), size, tuple(of_photo[entry["id"]]))
            photos[Path(found.file_name).name].append(found)
    except KeyError as error:
        raise InputError(
            f"{path}: an entry has no {error.args[0]!r}; copy the annotation file again"
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: an entry is damaged ({error}); copy the annotation file again") from error
    return dict(photos)


# ------------------------------------------------------------------------------------------------ masks


def decode(segmentation: Any, size: tuple[int, int]) -> np.ndarray:
    """bool (h, w) of any COCO segmentation, for (w, h) of the photo; ValueError says what is wrong."""
    if isinstance(segmentation, list):
        mask = np.zeros((size[1], size[0]), bool)
        if not segmentation:
            raise ValueError("it is empty")
        for polygon in segmentation:
            mask |= fill_polygon(polygon, size)
        return mask
    if not isinstance(segmentation, dict):
        raise ValueError("neither polygons nor run lengths")
    height, width = segmentation["size"]
    if (width, height) != tuple(size):
        raise ValueError(f"it is {width}x{height}, the photo {size[0]}x{size[1]}")
    counts = segmentation["counts"]
    return from_counts(decode_counts(counts) if isinstance(counts, (str, bytes)) else counts, size)


def fill_polygon(points: Sequence[float], size: tuple[int, int]) -> np.ndarray:
    """bool (h, w): the pixels whose centre lies inside x0, y0, x1, y1, ... by the even-odd rule.

    Every edge toggles, in each row whose centre line it crosses, all pixels to its right; what was toggled an
    odd number of times is inside.
    """
    flat = np.asarray(points, float)
    if flat.ndim != 1 or len(flat) % 2 or len(flat) < 6:
        raise ValueError(f"a polygon of {flat.size} numbers; it needs three points or more, as x, y pairs")
    if not np.isfinite(flat).all():
        raise ValueError("a polygon with numbers that are not finite")
    width, height = size
    corners = flat.reshape(-1, 2)
    toggles = np.zeros((height, width + 1), np.int32)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        low, high = min(y0, y1), max(y0, y1)
        # Rows whose centre y + 1/2 is in [low, high): half open, so that a shared corner counts once.
        rows = np.arange(max(0, int(np.ceil(low - 0.5))), min(height, int(np.ceil(high - 0.5))))
        if len(rows):
            crossings = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            columns = np.clip(np.ceil(crossings - 0.5), 0, width).astype(int)
            toggles[rows, columns] += 1  # an edge crosses a row once, so no pair of indices repeats
    return toggles[:, :width].cumsum(1) % 2 == 1


def from_counts(counts: Sequence[int], size: tuple[int, int]) -> np.ndarray:
    """bool (h, w) of run lengths: zeros first, then ones, and so on, down the columns."""
    runs = np.asarray(counts)
    if runs.ndim != 1 or runs.size == 0 or runs.dtype.kind not in "iu":
        raise ValueError("its counts are not whole numbers")
    if (runs < 0).any() or int(runs.sum()) != size[0] * size[1]:
        raise ValueError(
            f"its run lengths sum to {int(runs.sum())}, the photo has {size[0] * size[1]} pixels"
        )
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(size[0], size[1]).T


def decode_counts(text: str | bytes) -> list[int]:
    """Run lengths from COCO's compressed string.

    Each character carries five bits of a number, lowest first, as its code minus 48; bit 32 says that more
    follow, and bit 16 of the last one is the sign. From the fourth on, a number is the difference from the
    one two places before.
    """
    codes = text.encode("ascii") if isinstance(text, str) else text
    counts: list[int] = []
    value, shift = 0, 0
    for code in codes:
        bits = code - 48
        if not 0 <= bits < 64:
            raise ValueError(f"{chr(code)!r} cannot be in a compressed run length")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value, shift = 0, 0
    if shift:
        raise ValueError("its run lengths are cut short")
    return counts
