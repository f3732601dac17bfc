"""What a run is made of: regions, a job, settings, progress, a result; and the error that teaches.

Nothing here computes anything, and this module imports no other part of mast.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from PIL import Image
    from torch import Tensor

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | np.ndarray | Tensor | bytes | BinaryIO"


class InputError(ValueError):
    """Something the user gave cannot be used. The message names it, says what is wrong, and shows a way
    out.
    """


class NotFinite(RuntimeError):
    """A model computed NaN or infinity. The message names the model, the timestep and what to try."""


class Cancelled(Exception):
    """Raised by a callback to end a run early; nothing is written, finished inversions stay cached."""


@dataclass(frozen=True)
class Region:
    """One style and the part of the photo it repaints.

    mask: white where the style goes; None takes whatever the other regions leave over.
    strength: scales the region's mask, and with it the attention mass pi* M_i (Eq. 4).
    style_mask: only this part of the painting gives keys, values and colour statistics.
    """

    style: ImageLike
    mask: ImageLike | None = None
    strength: float = 1.0
    style_mask: ImageLike | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and 0 < self.strength <= 1):
            raise InputError(f"strength is {self.strength}; it must be above 0 and at most 1")


@dataclass(frozen=True)
class Job:
    """A photo and the regions to repaint: a tuple, a list, or one region alone."""

    content: ImageLike
    regions: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.regions
        regions = (given,) if isinstance(given, Region) else given
        if not isinstance(regions, (tuple, list)) or not all(isinstance(r, Region) for r in regions):
            raise InputError(
                f"the regions of a job are {type(given).__name__}; give a list of mast.Region(style, mask)"
            )
        object.__setattr__(self, "regions", tuple(regions))


@dataclass(frozen=True)
class Settings:
    """How to run, whatever the method. `paper` and `fast` are the two presets; see docs/performance.md.

    size: pixels of the longer side at which the model works; "auto" is the model's own, or the photo's where
    that is smaller. coarse: where a picture larger than the model is at home with begins, in pixels; "auto"
    takes the model's own size, "off" paints at `size` at once. refine: the share of the steps that each
    larger level repeats (pipeline/levels.py). windows: the side, in pixels, of the overlapping windows in
    which a larger level is painted; "auto" takes them where it would not fit into memory at once.
    fit: how a picture meets the model's stride. resize: each side to its nearest multiple. pad: the aspect is
    kept. square: the centre square of the photo, its masks and the styles, at `size`; so is the result.
    composite: how methods that know one style only have their pictures joined; see docs/methods.md.
    clean_end: whether the clean latent lies below the first timestep, so that n steps make n moves (the
    paper's 50); without it, as in every record that does not name it, they make n - 1.
    """

    steps: int = 50
    inversion: Literal["plain", "refined"] = "plain"
    clean_end: bool = False
    size: int | Literal["auto"] = 512
    coarse: int | Literal["auto", "off"] = "off"
    refine: float = 0.4
    windows: int | Literal["auto", "off"] = "off"
    fit: Literal["resize", "pad", "square"] = "resize"
    keep_unassigned: Literal["reconstruct", "exact"] = "reconstruct"
    features: Literal["auto", "memory", "replay"] = "auto"
    feature_dtype: Literal["float16", "float32"] = "float16"
    cache: bool = True
    composite: Literal["hard", "alpha", "poisson", "laplacian"] = "alpha"

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 2 <= self.steps <= 1000:
            raise InputError(
                f"steps is {self.steps}; it must be a whole number from 2 to 1000 (the paper uses 50)"
            )
        for name, words in (
            ("size", ("auto",)),
            ("coarse", ("auto", "off")),
            ("windows", ("auto", "off")),
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and 64 <= value <= 8192
            if not whole and value not in words:
                raise InputError(
                    f"{name} is {value}; it must be a whole number of pixels from 64 to 8192, or "
                    f"{' or '.join(words)}"
                )
        if (
            isinstance(self.refine, bool)
            or not isinstance(self.refine, (int, float))
            or not 0 < self.refine <= 1
        ):
            raise InputError(
                f"refine is {self.refine}; it must be above 0 and at most 1, the share of the steps that a "
                "larger level repeats"
            )
        if not isinstance(self.clean_end, bool):
            raise InputError(f"clean_end is {self.clean_end!r}; it must be true or false")
        choices = {
            "inversion": ("plain", "refined"),
            "fit": ("resize", "pad", "square"),
            "keep_unassigned": ("reconstruct", "exact"),
            "features": ("auto", "memory", "replay"),
            "feature_dtype": ("float16", "float32"),
            "composite": ("hard", "alpha", "poisson", "laplacian"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(allowed)}")

    def with_(self, **changes: Any) -> Settings:
        """The same settings with some of them changed; None leaves a setting as it is."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise InputError(f"no setting is called {name!r}; there are {', '.join(sorted(known))}")
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"steps": 50, "inversion": "plain", "clean_end": True},
    "fast": {"steps": 12, "inversion": "refined"},
}
FOR_PEOPLE: dict[str, Any] = {
    "keep_unassigned": "exact",
    "size": "auto",
    "coarse": "auto",
    "windows": "auto",
}
"""What a run takes on top of its preset, unless the paper's is asked for by name."""


@dataclass(frozen=True)
class Progress:
    """What a callback is told. `stage` is 'invert', 'denoise' or 'paint'; `x0()` decodes the current
    estimate, (h, w, 3) uint8. level: of `levels`, from 0, for pictures that are made coarse to fine.
    """

    stage: str
    done: int
    total: int
    t: int
    latent: Tensor | None = field(default=None, repr=False)
    x0: Callable[[], np.ndarray] | None = field(default=None, repr=False)
    level: int = 0
    levels: int = 1


OnStep: TypeAlias = Callable[[Progress], None]


@dataclass
class Result:
    """The picture, how it was made, and what it cost.

    parts: of a method that knows one style only, its picture for each region, before they were joined.
    inputs: the pictures and masks that were read (pipeline.inputs.JobInputs).
    """

    image: Image.Image
    provenance: dict[str, Any]
    seconds: dict[str, float]
    notes: list[str] = field(default_factory=list)
    parts: tuple[Image.Image, ...] = ()
    inputs: Any = field(default=None, repr=False)

    def save(
        self,
        path: str | os.PathLike[str],
        overwrite: bool = False,
        metadata: bool = True,
        home: Path | None = None,
    ) -> None:
        """Writes the picture, as the suffix says, with its provenance inside and as JSON beside it (unless
        metadata is False). home: the folder that recorded paths are relative to, if not the picture's.
        """
        from .images import save_result

        save_result(self, path, overwrite, metadata, home)


def mast_version() -> str:
    """As records keep it; "0" where mast is not installed."""
    try:
        return version("mast")
    except PackageNotFoundError:
        return "0"
