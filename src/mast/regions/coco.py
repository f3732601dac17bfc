"""COCO annotations: a file's photos and their objects, and every way COCO writes a mask, decoded here.

Segmentations are polygons (one object may have several, which are united), run lengths as a list of counts,
or run lengths as COCO's compressed string. Run lengths go down the columns and begin with the zeros.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..files import read_json
from ..images import LARGEST
from ..job import InputError

Id: TypeAlias = "int | str"
LARGEST_FILE = 1 << 30  # bytes; that of COCO's largest year is half of it
DIGITS = 12  # characters of one compressed run length, at the most: more than any picture has pixels


@dataclass(frozen=True)
class Annotation:
    """One annotated object, still encoded. A crowd is a group that nobody took apart."""

    id: Id
    name: str
    crowd: bool
    segmentation: Any

    def mask(self, size: tuple[int, int]) -> np.ndarray:
        """bool (h, w) for (w, h) of the photo."""
        try:
            return decode(self.segmentation, size)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            raise InputError(
                f"annotation {self.id} ({self.name}): its segmentation is damaged ({error})"
            ) from error


@dataclass(frozen=True)
class Photo:
    """A photo as the annotation file knows it; size is (w, h)."""

    file_name: str
    size: tuple[int, int]
    annotations: tuple[Annotation, ...]


def read_coco(path: Path) -> dict[str, list[Photo]]:
    """The file's photos by the last part of their file name; more than one photo may share a name."""
    if not path.exists():
        raise InputError(f"{path}: no such annotation file; give COCO's instances_*.json")
    data = read_json(path, "annotation file", LARGEST_FILE)
    if not isinstance(data, dict) or not isinstance(data.get("images"), list):
        raise InputError(f"{path}: not COCO annotations ('images' is missing); give COCO's instances_*.json")
    if not isinstance(data.get("annotations"), list):
        raise InputError(
            f"{path}: not COCO annotations ('annotations' is missing); give COCO's instances_*.json"
        )
    try:
        return _photos(data)
    except KeyError as error:
        raise InputError(
            f"{path}: an entry has no {error.args[0]!r}; copy the annotation file again"
        ) from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: an entry is damaged ({error}); copy the annotation file again") from error


def _photos(data: dict[str, Any]) -> dict[str, list[Photo]]:
    names = {_id(entry["id"]): _text(entry["name"]) for entry in data.get("categories", [])}
    of_photo: dict[Id, list[Annotation]] = defaultdict(list)
    for entry in data["annotations"]:
        name = names.get(entry.get("category_id"), "object")
        of_photo[_id(entry["image_id"])].append(
            Annotation(_id(entry["id"]), name, bool(entry.get("iscrowd", 0)), entry.get("segmentation"))
        )
    _of_one_kind([a.id for annotations in of_photo.values() for a in annotations], "annotations")
    _of_one_kind([*of_photo, *(entry["id"] for entry in data["images"])], "photos")
    photos: dict[str, list[Photo]] = defaultdict(list)
    for entry in data["images"]:
        size = (_side(entry["width"]), _side(entry["height"]))
        if size[0] * size[1] > LARGEST:
            raise ValueError(f"a photo of {size[0]}x{size[1]} pixels")
        found = Photo(_text(entry["file_name"]), size, tuple(of_photo.get(_id(entry["id"]), ())))
        photos[Path(found.file_name).name].append(found)
    return dict(photos)


def _id(value: Any) -> Id:
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        raise ValueError(f"an id is {_brief(value)}; ids are whole numbers")
    return value


def _of_one_kind(ids: Sequence[Id], what: str) -> None:
    if len({type(one) for one in ids}) > 1:
        raise ValueError(f"the ids of {what} are numbers and text mixed, so they have no order")


def _side(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= LARGEST:
        raise ValueError(f"a side of {_brief(value)} pixels")
    if value != int(value):
        raise ValueError(f"a side of {_brief(value)} pixels")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name is {_brief(value)}")
    value.encode()  # half a character, which JSON can hold, is a ValueError here
    return value


def _brief(value: Any) -> str:
    """A value for a message, which a number of a thousand digits would fill."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}..."


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
        raise ValueError(f"it is {_brief(width)}x{_brief(height)}, the photo {size[0]}x{size[1]}")
    counts = segmentation["counts"]
    return from_counts(decode_counts(counts) if isinstance(counts, (str, bytes)) else counts, size)


def fill_polygon(points: Sequence[float], size: tuple[int, int]) -> np.ndarray:
    """bool (h, w): the pixels whose centre lies inside x0, y0, x1, y1, ... by the even-odd rule.

    Every edge toggles, in each row whose centre line it crosses, all pixels to its right; what was toggled an
    odd number of times is inside.
    """
    if not isinstance(points, (list, tuple)) or len(points) % 2 or len(points) < 6:
        count = f"{len(points)} numbers" if isinstance(points, (list, tuple)) else _brief(points)
        raise ValueError(f"a polygon of {count}; it needs three points or more, as x, y pairs")
    for value in points:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"a polygon with {_brief(value)} in it, which is no number")
        if not -LARGEST <= value <= LARGEST:
            raise ValueError(f"a polygon with {_brief(value)} in it: not finite, or far outside the photo")
    width, height = size
    corners = np.array(points, float).reshape(-1, 2)
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
    pixels = size[0] * size[1]
    if not isinstance(counts, (list, tuple)) or not counts:
        raise ValueError("its counts are not whole numbers")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int):
            raise ValueError("its counts are not whole numbers")
        if not 0 <= count <= pixels:
            raise ValueError(f"it has a run of {_brief(count)} pixels, the photo has {pixels}")
    if sum(counts) != pixels:  # of Python's integers, which do not wrap
        raise ValueError(f"its run lengths sum to {sum(counts)}, the photo has {pixels} pixels")
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(size[0], size[1]).T


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
        if shift > 5 * DIGITS:
            raise ValueError("it has a run length without an end")
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value, shift = 0, 0
    if shift:
        raise ValueError("its run lengths are cut short")
    return counts
