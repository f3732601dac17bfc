"""Pictures in and out: read with care, fitted to the model's stride, written with how they were made."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError
from torch import Tensor

from .files import atomic, check_output
from .job import ImageLike, InputError

if TYPE_CHECKING:
    from .job import Result

LARGEST = 178_956_970  # pixels; Pillow's own bound for a picture that is not an attack
SMALLEST = 16  # pixels a side
TEXT_KEY = "mast"
COLOUR_TOLERANCE = (
    24  # how far, in 8-bit levels of any channel, a map's pixel may be from the colour it means
)


def describe(image: ImageLike, otherwise: str = "image") -> str:
    """How to name an input in a message: its path, or what it is."""
    return str(image) if isinstance(image, (str, os.PathLike)) else otherwise


def read_rgb(image: ImageLike, what: str = "image") -> Image.Image:
    """Any picture as 8-bit RGB, upright. Transparency is laid on white; 16 bits and CMYK are converted."""
    opened = _open(image, what)
    if opened.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in opened.info:
        rgba = opened.convert("RGBA")
        opened = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    elif opened.mode.startswith("I") or opened.mode == "F":
        opened = Image.fromarray((_levels(opened) * 255).round().astype(np.uint8))
    return opened.convert("RGB")


def read_mask(image: ImageLike, what: str = "mask") -> np.ndarray:
    """A mask as float32 (h, w) in [0, 1]: luminance, times alpha where there is any; bool, 0/1 and 0..255
    are understood.
    """
    if isinstance(image, np.ndarray) and image.dtype.kind in "fb" and image.ndim == 2:
        return image.astype(np.float32)
    if not isinstance(image, (np.ndarray, Image.Image)):
        path, rgb = split_colour(image)
        if rgb is not None:
            pixels = np.asarray(read_rgb(path, "map"), np.int16)
            return (np.abs(pixels - np.array(rgb, np.int16)).max(-1) <= COLOUR_TOLERANCE).astype(np.float32)
    opened = _open(image, what)
    alpha = None
    if opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info:
        rgba = opened.convert("RGBA")
        alpha, opened = np.asarray(rgba.getchannel("A"), np.float32) / 255, rgba.convert("RGB")
    if opened.mode.startswith("I") or opened.mode == "F":
        mask = _levels(opened)
    else:
        grey = np.asarray(opened.convert("L"))
        mask = grey.astype(np.float32) / (1 if grey.max() == 1 else 255)
    if alpha is not None and alpha.min() < 1:
        # A shape drawn in one colour on a transparent ground says where in its alpha alone.
        seen = mask[alpha > 0]
        mask = alpha if seen.size == 0 or np.ptp(seen) == 0 else mask * alpha
    return mask.astype(np.float32)


def colour_of(text: str) -> tuple[int, int, int] | None:
    """(r, g, b) of "#rrggbb" or "rrggbb"; None when it is no colour."""
    match = re.fullmatch(r"#?([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})", text)
    return (int(match[1], 16), int(match[2], 16), int(match[3], 16)) if match else None


def split_colour(path: str | os.PathLike[str]) -> tuple[Path, tuple[int, int, int] | None]:
    """MAP.png#rrggbb names one colour of a colour-coded map; any other path is just a path."""
    head, mark, tail = str(path).rpartition("#")
    rgb = colour_of(tail) if mark and not Path(path).exists() else None
    return (Path(path), None) if rgb is None else (Path(head), rgb)


def _levels(image: Image.Image) -> np.ndarray:
    """A 16-bit, 32-bit or float picture as float32 in [0, 1]."""
    values = np.asarray(image).astype(np.float32)
    top = float(values.max(initial=0.0))
    return np.clip(
        values / (1.0 if top <= 1 else 255.0 if top <= 255 and image.mode == "F" else 65535.0), 0, 1
    )


def _open(image: ImageLike, what: str) -> Image.Image:
    """Decoded and upright, whatever it was given as; every way a file can be bad has its own sentence."""
    if isinstance(image, Image.Image):
        opened, name = image, what
    elif isinstance(image, np.ndarray):
        opened, name = _from_array(image, what), what
    else:
        opened, name = _decode(Path(image), what), str(image)
    if min(opened.size) < SMALLEST:
        raise InputError(
            f"{name}: {opened.width}x{opened.height} is too small; the {what} needs at least {SMALLEST} "
            "pixels a side"
        )
    return ImageOps.exif_transpose(opened)


def _decode(path: Path, what: str) -> Image.Image:
    if not path.exists():
        raise InputError(f"{path}: no such file; give the path of the {what}")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; give the path of the {what}")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty (0 bytes); save or copy the {what} again")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened = Image.open(path)
            if opened.width * opened.height > LARGEST:
                raise InputError(
                    f"{path}: {opened.width}x{opened.height} pixels are too many; shrink the {what} below "
                    f"{LARGEST:,} pixels"
                )
            frames = getattr(opened, "n_frames", 1)
            if frames > 1 and opened.format != "MPO":  # MPO: a camera's JPEG with its preview behind it
                raise InputError(f"{path}: an animation of {frames} frames; save the frame you want as a PNG")
            opened.load()
            return opened
    except Image.DecompressionBombError as error:
        raise InputError(
            f"{path}: far too many pixels; shrink the {what} below {LARGEST:,} pixels"
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: not a picture that can be read; use PNG, JPEG, WebP or TIFF") from error
    except PermissionError as error:
        raise InputError(f"{path}: reading is not permitted; check the file's rights") from error
    except InputError:
        raise
    except Exception as error:  # decoders fail in many ways, and a file that cannot be decoded is bad
        raise InputError(f"{path}: damaged or cut short ({error}); save or copy the {what} again") from error


def _from_array(array: np.ndarray, what: str) -> Image.Image:
    if array.size == 0 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (1,), (3,), (4,)):
        raise InputError(f"{what}: an array of shape {array.shape}; give (h, w), (h, w, 3) or (h, w, 4)")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise InputError(f"{what}: float arrays hold values from 0 to 1; scale yours")
        array = (array * 255).round().astype(np.uint8)
    elif array.dtype == bool:
        array = array.astype(np.uint8) * 255
    elif array.dtype != np.uint8:
        raise InputError(f"{what}: an array of {array.dtype}; give uint8, bool, or floats from 0 to 1")
    return Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array)


# ------------------------------------------------------------ fitting and tensors


def work_size(
    width: int, height: int, size: int, stride: int, fit: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """(w, h) a picture is resized to so that its longer side is about `size`, and (w, h) of the canvas, in
    whole strides.

    resize: both are the nearest multiples of the stride. pad: the aspect is kept to the pixel and the
    canvas rounded up.
    """
    scale = size / max(width, height)
    if fit == "resize":
        sides = tuple(max(stride, round(side * scale / stride) * stride) for side in (width, height))
        return (sides[0], sides[1]), (sides[0], sides[1])
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    return inner, (-(-inner[0] // stride) * stride, -(-inner[1] // stride) * stride)


def to_tensor(image: Image.Image, inner: tuple[int, int], canvas: tuple[int, int]) -> Tensor:
    """RGB -> (1, 3, h, w) in [-1, 1], resized to `inner` (w, h) and mirrored out to the canvas."""
    if image.size != inner:
        image = image.resize(inner, Image.Resampling.LANCZOS)
    array = pad_to(np.asarray(image), canvas)
    return torch.from_numpy(array.copy()).permute(2, 0, 1).unsqueeze(0).float() / 127.5 - 1


def pad_to(array: np.ndarray, canvas: tuple[int, int]) -> np.ndarray:
    """(h, w, ...) mirrored at the right and lower border up to (w, h) of the canvas."""
    down, right = canvas[1] - array.shape[0], canvas[0] - array.shape[1]
    if not down and not right:
        return array
    mirror = down <= array.shape[0] and right <= array.shape[1]
    borders = [(0, down), (0, right)] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, borders, mode="symmetric" if mirror else "edge")


def to_array(tensor: Tensor) -> np.ndarray:
    """(1, 3, h, w) in [-1, 1] -> (h, w, 3) uint8, rounded."""
    return ((tensor[0].clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0).cpu().numpy()


# ------------------------------------------------------------------------------------------------ writing


def save_result(result: Result, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """The PNG with its provenance as text, and the same as PATH.json beside it."""
    target = check_output(path, overwrite)
    text = json.dumps(result.provenance, indent=2)
    info = PngImagePlugin.PngInfo()
    info.add_itxt(TEXT_KEY, text)
    sidecar = check_output(target.with_suffix(".json"), overwrite, (".json",))
    with atomic(target) as part, atomic(sidecar) as beside:  # both whole; the picture comes last
        beside.write_text(text + "\n")
        result.image.save(part, format="PNG", pnginfo=info)


def save_png(image: Image.Image, path: Path) -> None:
    with atomic(path) as part:
        image.save(part, format="PNG")


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How a picture was made: from the PNG itself, or a JSON sidecar."""
    target = Path(path)
    sidecar = target.with_suffix(".json")
    text: Any = None
    if target.suffix.lower() != ".json":
        text = _decode(target, "picture").info.get(TEXT_KEY)
    elif not target.is_file():
        raise InputError(f"{target}: no such file; give a picture mast made, or its .json")
    if text is None and sidecar.is_file():
        text = sidecar.read_bytes()
    if text is None:
        raise InputError(
            f"{target}: carries no record of how it was made; give a picture mast made, or its .json"
        )
    try:
        record = json.loads(text)
    except ValueError as error:
        raise InputError(f"{target}: its record is damaged ({error}); copy the file again") from error
    if not isinstance(record, dict) or not {"content", "regions", "settings", "method"} <= record.keys():
        raise InputError(f"{target}: this is no record of mast; give a picture mast made, or its .json")
    return record
