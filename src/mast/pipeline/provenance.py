"""How a picture was made, in plain JSON: enough to make it again, bit by bit, and to see whether an input
has changed.
"""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..files import sha256
from ..images import split_colour
from ..job import ImageLike, InputError, Job, Region, Settings
from ..methods import Method, make, paints_one_style
from .inputs import JobInputs


def mast_version() -> str:
    try:
        return version("mast")
    except PackageNotFoundError:
        return "0"


def provenance(
    inputs: JobInputs, method: Method, model: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    """No times and no host names: two equal runs have equal records. model: an engine's `record`."""
    job = inputs.job
    return {
        "mast": mast_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **model,
        "method": {"name": method.name, **method.options()},
        "settings": effective(settings, method),
        "content": _file(job.content),
        "size": list(inputs.photo.size),
        "regions": [
            {
                "mask": None if region.mask is None else _file(region.mask),
                "style": _file(region.style),
                "strength": region.strength,
                "style_mask": None if region.style_mask is None else _file(region.style_mask),
                "coverage": round(float(mask.mean()), 4),
            }
            for region, mask in zip(job.regions, inputs.masks, strict=True)
        ],
    }


def effective(settings: Settings, method: Method) -> dict[str, Any]:
    """The settings that decide the picture; the others change how long it takes, or nothing at all."""
    names = ["size", "fit", "keep_unassigned"]
    names += ["steps", "inversion", "feature_dtype"] if method.needs_backbone else []
    names += ["composite"] if paints_one_style(method) else []
    return {name: getattr(settings, name) for name in names}


def _file(image: ImageLike) -> dict[str, Any]:
    if isinstance(image, (str, os.PathLike)):
        path, rgb = split_colour(image)
        entry = {"path": str(path.resolve()), "sha256": sha256(path)}
        return entry if rgb is None else {**entry, "colour": "{:02x}{:02x}{:02x}".format(*rgb)}
    pixels = np.asarray(image)
    return {
        "path": None,
        "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
        "shape": list(pixels.shape),
    }


def job_from(record: dict[str, Any], beside: Path) -> Job:
    """The job of a record; a file that has moved is looked for beside the picture, one that has changed is
    refused.
    """
    regions = [
        Region(
            style=_find(region["style"], beside, "style image"),
            mask=None if region["mask"] is None else _find(region["mask"], beside, "mask"),
            strength=region["strength"],
            style_mask=None
            if region["style_mask"] is None
            else _find(region["style_mask"], beside, "style mask"),
        )
        for region in record["regions"]
    ]
    return Job(_find(record["content"], beside, "photo"), tuple(regions))


def method_from(record: dict[str, Any]) -> Method:
    options = dict(record["method"])
    return make(options.pop("name"), **options)


def _find(entry: dict[str, Any], beside: Path, what: str) -> str:
    if entry["path"] is None:
        raise InputError(
            f"the {what} was given as pixels, not as a file, so the picture cannot be made again from its "
            "record"
        )
    path = Path(entry["path"])
    if not path.exists():
        path = beside / path.name
    if not path.exists():
        raise InputError(
            f"{entry['path']}: the {what} is not there any more; put it back or beside the picture"
        )
    if sha256(path) != entry["sha256"]:
        raise InputError(f"{path}: the {what} has changed since the picture was made; put the old file back")
    return f"{path}#{entry['colour']}" if "colour" in entry else str(path)


def same_pixels(a: Image.Image, b: Image.Image) -> tuple[bool, int, float]:
    """Whether two pictures are equal, the largest difference in 8-bit levels, and the share of pixels that
    differ.
    """
    if a.size != b.size:
        return False, 255, 1.0
    difference = np.abs(np.asarray(a.convert("RGB"), np.int16) - np.asarray(b.convert("RGB"), np.int16)).max(
        -1
    )
    return not difference.any(), int(difference.max()), float((difference > 0).mean())
