"""How a picture was made, in plain JSON: enough to make it again, bit by bit, and to see whether an input
has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..files import sha256
from ..images import colour_of, file_bytes, read_provenance
from ..job import ImageLike, InputError, Job, Region, Settings, mast_version
from ..methods import Method, make, paints_one_style
from ..regions.parts import split_part
from .inputs import JobInputs

SHA256, COLOUR = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{6}")
MOST_THREADS, MOST_REGIONS = 1024, 256
NOTED = ("mast", "torch", "threads", "device", "compiled")  # may change the last bits, and nothing else
FIELDS: dict[str, type | tuple[type, ...]] = {
    "threads": int,
    "model": dict,
    "device": str,
    "dtype": str,
    "method": dict,
    "settings": dict,
    "content": dict,
    "regions": list,
}


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
    names += ["steps", "inversion", "feature_dtype", "coarse"] if method.needs_backbone else []
    names += ["clean_end"] if settings.clean_end and method.needs_backbone else []
    names += ["refine"] if settings.coarse != "off" and method.needs_backbone else []
    names += ["windows"] if settings.windows != "off" and method.needs_backbone else []
    names += ["composite"] if paints_one_style(method) else []
    return {name: getattr(settings, name) for name in names}


def _file(image: ImageLike) -> dict[str, Any]:
    if isinstance(image, (str, os.PathLike)):
        path, part = split_part(image)
        entry = {"path": str(path.resolve()), "sha256": sha256(path)}
        if part is None:
            return entry
        rgb = colour_of(part)
        return {**entry, **({"part": part} if rgb is None else {"colour": bytes(rgb).hex()})}
    data = file_bytes(image)
    if data is not None:
        return {"path": None, "sha256": hashlib.sha256(data).hexdigest()}
    pixels = np.asarray(image)
    return {
        "path": None,
        "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
        "shape": list(pixels.shape),
    }


# --------------------------------------------------------------------------------------------- reading one


def load_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record of a picture, or of a sidecar, checked: it may come from a stranger."""
    return checked_record(read_provenance(path), str(path))


def checked_record(record: Any, name: str) -> dict[str, Any]:
    """A record whose every field has its type and stays within bounds; anything else is refused by name."""

    def need(holds: bool, what: str) -> None:
        if not holds:
            version = record.get("mast") if isinstance(record, dict) else None
            made = (
                f"mast {version}"
                if isinstance(version, str) and len(version) < 40
                else "the mast that made it"
            )
            raise InputError(f"{name}: its record is not of this version ({what}); replay it with {made}")

    def text(value: Any, most: int = 4096) -> bool:
        return isinstance(value, str) and 0 < len(value) <= most and "\0" not in value

    def file(entry: Any, what: str) -> None:
        need(isinstance(entry, dict) and {"path", "sha256"} <= entry.keys(), what)
        need(entry["path"] is None or text(entry["path"]), f"the path of {what}")
        need(
            isinstance(entry["sha256"], str) and bool(SHA256.fullmatch(entry["sha256"])),
            f"the hash of {what}",
        )
        need("colour" not in entry or bool(COLOUR.fullmatch(str(entry["colour"]))), f"the colour of {what}")
        need("part" not in entry or text(entry["part"]), f"the part of {what}")

    need(isinstance(record, dict), "not an object")
    for key, kind in FIELDS.items():
        need(key in record and isinstance(record[key], kind), key)
    need(not isinstance(record["threads"], bool) and 1 <= record["threads"] <= MOST_THREADS, "threads")
    model = record["model"]
    need({"name", "fingerprint"} <= model.keys(), "model")
    need(model["name"] is None or text(model["name"]), "the model's name")
    need(model["fingerprint"] is None or text(model["fingerprint"], 200), "the model's fingerprint")
    need(text(record["device"], 20) and text(record["dtype"], 20), "device")
    need(record.get("prediction_type") is None or text(record["prediction_type"], 40), "prediction_type")
    need(text(record["method"].get("name"), 100), "method")
    file(record["content"], "content")
    need(len(record["regions"]) <= MOST_REGIONS, "too many regions")
    for i, region in enumerate(record["regions"]):
        what = f"region {i + 1}"
        need(isinstance(region, dict) and {"style", "mask", "strength", "style_mask"} <= region.keys(), what)
        file(region["style"], f"the style of {what}")
        for key in ("mask", "style_mask"):
            if region[key] is not None:
                file(region[key], f"the {key} of {what}")
        strength = region["strength"]
        need(isinstance(strength, (int, float)) and not isinstance(strength, bool), f"the strength of {what}")
    return record


def settings_from(record: dict[str, Any]) -> Settings:
    """The settings of a record; what had no effect is as it always is."""
    try:
        return Settings(**record["settings"])
    except TypeError as error:
        raise InputError(f"the record has a setting that this version does not know ({error})") from error


def job_from(record: dict[str, Any], beside: Path) -> Job:
    """The job of a checked record. Paths are relative to the picture's folder; a file that has moved is
    looked for in it, one that has changed is refused.
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
    """The method of a checked record; options it does not have, or of a wrong kind, are refused."""
    options = dict(record["method"])
    name = options.pop("name")
    try:
        return make(name, **options)
    except TypeError as error:
        raise InputError(f"the record's options of {name} are of the wrong kind ({error})") from error


def _find(entry: dict[str, Any], beside: Path, what: str) -> str:
    if entry["path"] is None:
        raise InputError(
            f"the {what} was given as pixels, not as a file, so the picture cannot be made again from its "
            "record"
        )
    path = Path(os.path.normpath(beside / entry["path"]))
    if not path.exists():
        path = beside / PurePath(entry["path"].replace("\\", "/")).name
    if not path.exists():
        raise InputError(
            f"{entry['path']}: the {what} is not there any more; put it back or beside the picture"
        )
    if sha256(path) != entry["sha256"]:
        raise InputError(f"{path}: the {what} has changed since the picture was made; put the old file back")
    part = entry.get("colour", entry.get("part"))
    return str(path) if part is None else f"{path}#{part}"


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
