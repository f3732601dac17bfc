"""What a segmenter is: anything that proposes objects of a photo, or picks out the one that is meant.

Two are at hand, `SalientObject` and `MobileSam`. Your own is a class with one of these methods; see
docs/regions.md for one around an ONNX file.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from PIL import Image

from ..job import InputError

Point: TypeAlias = tuple[float, float]
SMALLEST_BOX = 2  # pixels a side


@dataclass(frozen=True)
class Proposal:
    """An object that a segmenter saw: its mask, float32 (h, w) from 0 to 1 at the photo's size, and how sure
    the segmenter is, from 0 to 1.
    """

    mask: np.ndarray
    score: float


@dataclass(frozen=True)
class Prompt:
    """Where an object is, in pixels of the photo: points inside it, points that are not, and a box (x0, y0,
    x1, y1) around it.
    """

    at: tuple[Point, ...] = ()
    away: tuple[Point, ...] = ()
    box: tuple[float, float, float, float] | None = None


class Segmenter(Protocol):
    """Proposes the objects of a photo (RGB), in any order; none is an answer, too."""

    name: str

    def propose(self, photo: Image.Image) -> list[Proposal]: ...


class Selector(Protocol):
    """Picks out one object: a mask, float32 (h, w) from 0 to 1 at the photo's size."""

    name: str

    def select(self, photo: Image.Image, prompt: Prompt) -> np.ndarray: ...


def select(selector: Selector, photo: Image.Image, prompt: Prompt) -> np.ndarray:
    """The object that a prompt means. A prompt outside the photo, or an answer that is none, is refused."""
    check_prompt(prompt, photo.size)
    mask = check_mask(selector.select(photo, prompt), photo.size, selector.name)
    if float(mask.max()) < 0.5:
        raise InputError(
            f"{selector.name} found no object there; click into the middle of it, or draw a box around it"
        )
    return mask


def propose(segmenter: Segmenter, photo: Image.Image) -> list[Proposal]:
    """The objects of a photo; an answer that is no mask is refused by the segmenter's name."""
    return [
        Proposal(check_mask(found.mask, photo.size, segmenter.name), float(found.score))
        for found in segmenter.propose(photo)
    ]


def check_prompt(prompt: Prompt, size: tuple[int, int]) -> None:
    """Refuses what lies outside the photo (w, h), and a prompt that points at nothing."""
    width, height = size
    inside = f"the photo is {width}x{height}: x from 0 to {width - 1}, y from 0 to {height - 1}"
    for x, y in (*prompt.at, *prompt.away):
        if not (0 <= x < width and 0 <= y < height):
            raise InputError(f"the click {x:g},{y:g} is outside the photo; {inside}")
    if prompt.box is not None:
        x0, y0, x1, y1 = prompt.box
        across = 0 <= x0 <= x1 - SMALLEST_BOX <= width - SMALLEST_BOX
        down = 0 <= y0 <= y1 - SMALLEST_BOX <= height - SMALLEST_BOX
        if not (across and down):
            raise InputError(
                f"the box {x0:g},{y0:g},{x1:g},{y1:g} is empty or leaves the photo; give the left, upper, "
                f"right and lower side in this order ({inside})"
            )
    elif not prompt.at:
        raise InputError("nothing says where the object is; give a point inside it, or a box around it")


def check_mask(mask: np.ndarray, size: tuple[int, int], name: str) -> np.ndarray:
    """A segmenter's mask as float32 (h, w) from 0 to 1; bool is understood."""
    found = np.asarray(mask)
    if found.shape != (size[1], size[0]) or found.dtype.kind not in "bf":
        raise InputError(
            f"{name} gave a mask of {found.dtype} {found.shape}; a segmenter gives bool, or floats from 0 "
            f"to 1, of the photo's {(size[1], size[0])}"
        )
    found = found.astype(np.float32)
    if not np.isfinite(found).all() or found.min() < 0 or found.max() > 1:
        raise InputError(f"{name} gave a mask with values outside 0 to 1; use probabilities, not logits")
    return found


def load_own(text: str, method: str) -> Any:
    """The segmenter that FILE.py:CLASS names, made without arguments. method: what it must be able to do.

    The file is Python and is run: it is the user's own.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py" or not path.is_file():
        raise InputError(f"{text}: no segmenter of this name; write FILE.py:CLASS for one of your own")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        made = getattr(module, name)()
    except Exception as error:
        raise InputError(f"{text}: cannot be made ({type(error).__name__}: {error})") from error
    if not callable(getattr(made, method, None)) or not isinstance(getattr(made, "name", None), str):
        raise InputError(f"{text}: a segmenter has a name and here a method {method}(); see docs/regions.md")
    return made
