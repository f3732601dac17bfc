"""One region of a source that holds several, by its name: layers.psd#sky, labels.npy#label-3,
instances.json#person. The names are those that `mast regions show` lists.

A mask is given in this way wherever one is wanted: a picture as it is, MAP.png#rrggbb for a colour of a map,
SOURCE#NAME for the rest.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from ..images import colour_of, read_mask
from ..job import ImageLike, InputError
from .partition import distinct_names
from .read import parts_of

NO_PICTURES = (".psd", ".psb", ".ora", ".json", ".npy", ".mat")  # sources that hold masks, and are none


def split_part(source: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """The file of a mask, and the name or colour behind its #; a file whose own name holds a # is a file."""
    head, mark, name = os.fspath(source).rpartition("#")
    named = mark and head and name and not os.path.exists(source)
    return (Path(head), name) if named and (colour_of(name) or os.path.isfile(head)) else (Path(source), None)


def read_part(mask: ImageLike, photo: ImageLike, size: tuple[int, int], what: str) -> np.ndarray:
    """float32 (h, w) from 0 to 1: the mask that is meant, of a photo of (w, h); what: its name."""
    if not isinstance(mask, (str, os.PathLike)):
        return read_mask(mask, what)
    path, name = split_part(mask)
    if path.suffix.lower() not in NO_PICTURES and (name is None or colour_of(name)):
        return read_mask(mask, what)
    beside = Path(photo) if isinstance(photo, (str, os.PathLike)) else Path("photo")
    found = parts_of(path, beside, size, [])
    names = distinct_names([one for one, _ in found])
    if name is None and len(found) == 1:
        return found[0][1]
    if name not in names:
        near = get_close_matches(name or "", names, 1)
        wrong = f"none is called {name!r}" if name else "one must be named"
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{path}: has {len(names)} regions, and {wrong}{hint}; write {path.name}#NAME (there are "
            f"{', '.join(names)})"
        )
    return found[names.index(name)][1]
