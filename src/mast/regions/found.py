"""Regions that were found in a photo, kept in a folder beside the picture that is painted with them: so it
can be made again, its masks can be looked at and edited, and nothing is looked for twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from PIL import Image

from ..files import kept, read_json, sha256, shown
from ..images import read_rgb
from ..job import InputError
from .auto import Divided
from .show import ABOUT, MAP, OVERLAY, save_folder

Find: TypeAlias = Callable[[Image.Image, int], Divided]
LARGEST_ABOUT = 1 << 16  # bytes


def regions_folder(output: Path) -> Path:
    """Where the regions of a picture are kept: cat.regions beside cat.png."""
    return output.with_suffix(".regions")


def found_masks(
    photo: Path, n: int, folder: Path, find: Find, segmenter: str, overwrite: bool = False
) -> tuple[list[Path], list[str]]:
    """The masks of N regions of a photo, as files in a folder, and notes on how they were found.

    A folder that holds N regions of this very photo by this segmenter is taken as it is, with whatever
    somebody has made of its masks since. segmenter: its name.
    """
    about = {"photo": sha256(photo, "photo"), "n": n, "segmenter": segmenter}
    files = _kept(folder, about)
    if files is not None:
        return files, []
    if folder.exists() and not overwrite:
        raise InputError(
            f"{shown(folder)}: holds the regions of another photo, or another number of them; choose another "
            "output, or allow overwriting (--overwrite)"
        )
    check_folder(folder, overwrite)
    picture = read_rgb(photo, "photo")
    made = find(picture, n)
    return save_folder(folder, picture, made.regions, about)[:n], made.notes


def _kept(folder: Path, about: dict[str, Any]) -> list[Path] | None:
    """The masks in a folder that is about the same, if it is."""
    if not (folder / ABOUT).is_file():
        return None
    try:
        said = read_json(folder / ABOUT, "regions", LARGEST_ABOUT)
    except InputError:
        return None
    if not isinstance(said, dict) or {key: said.get(key) for key in about} != about:
        return None
    names = said.get("masks")
    if not isinstance(names, list) or len(names) != about["n"]:
        return None
    files = [folder / name for name in names if isinstance(name, str) and Path(name).name == name]
    return files if len(files) == len(names) and all(file.is_file() for file in files) else None


def check_folder(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that cannot be made, or holds anything but regions written here."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: this is no folder; give a new one for the regions")
    if not folder.parent.is_dir():
        raise InputError(f"{folder.parent}: no such folder; make it first")
    inside = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if inside and not overwrite:
        raise kept(folder)
    if inside and not ({MAP, OVERLAY} <= inside and all(n.endswith(".png") for n in inside - {ABOUT})):
        raise InputError(f"{folder}: holds more than regions; it is not replaced, choose another folder")
