"""Photos as 8-bit sRGB with their transparency, masks as numbers from 0 to 1."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops

from ..files import shown
from ..job import ImageLike, InputError
from .decoding import as_array, careful, describe, open_picture

COLOUR_TOLERANCE = (
    24  # how far, in 8-bit levels of any channel, a map's pixel may be from the colour it means
)
SAME_COLOURS = 2  # levels; a profile that changes nothing by more is sRGB under some other name
SPACES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}  # ICC's colour spaces as Pillow's modes
GREYS = ("1", "L", "LA", "La")


def read_rgb(image: ImageLike, what: str = "image") -> Image.Image:
    """Any picture as 8-bit sRGB, upright. Transparency is laid on white; 16 bits, CMYK and colour profiles
    are converted.
    """
    return read_photo(image, what)[0]


def read_photo(image: ImageLike, what: str = "photo") -> tuple[Image.Image, Image.Image | None]:
    """`read_rgb`, and the alpha (mode L) where some of it is transparent; `with_alpha` puts it back."""
    opened = open_picture(image, what)
    with careful(describe(image, what), what):
        return _colours(opened, describe(image, what), managed=True)


def with_alpha(image: Image.Image, alpha: Image.Image, photo: Image.Image) -> Image.Image:
    """RGBA of a result made from `photo`; alpha and photo as `read_photo` gave them.

    The colours are the photo's own, free of the white they were laid on, plus what the result changed. So no
    white shows at soft edges, an opaque pixel is the result's, and an unchanged one the photo's.
    """
    if alpha.size != image.size:
        alpha = alpha.resize(image.size, Image.Resampling.BILINEAR)
    if photo.size != image.size:
        photo = photo.resize(image.size, Image.Resampling.LANCZOS)
    made, laid = np.asarray(image.convert("RGB"), np.float32), np.asarray(photo.convert("RGB"), np.float32)
    share = np.asarray(alpha, np.float32)[..., None] / 255
    own = np.clip(255 - (255 - laid) / np.maximum(share, 1 / 255), 0, 255)
    rgba = Image.fromarray(np.clip((own + made - laid).round(), 0, 255).astype(np.uint8))
    rgba.putalpha(alpha)
    return rgba


def read_mask(image: ImageLike, what: str = "mask") -> np.ndarray:
    """A mask as float32 (h, w) in [0, 1]: luminance, times alpha where there is any; bool, 0/1 and 0..255
    are understood.
    """
    name, array = describe(image, what), as_array(image, what)
    if (
        array is not None
        and array.dtype.kind in "fb"
        and array.shape[2:] in ((), (1,))
        and array.ndim in (2, 3)
    ):
        values = array.reshape(array.shape[:2]).astype(np.float32)
        if values.size:
            _check_range(values, name, 1)
        return values
    if isinstance(image, (str, os.PathLike)):
        path, rgb = split_colour(image)
        if rgb is not None:
            opened = open_picture(path, "map")
            with careful(shown(path), "map"):  # the numbers of the file: a profile would move the colours
                pixels = np.asarray(_colours(opened, shown(path), managed=False)[0], np.int16)
            return (np.abs(pixels - np.array(rgb, np.int16)).max(-1) <= COLOUR_TOLERANCE).astype(np.float32)
    opened = open_picture(image, what)
    with careful(name, what):
        return _mask(opened, name)


def _mask(opened: Image.Image, name: str) -> np.ndarray:
    opened, transparency = _apart(opened)
    if _deep(opened):
        mask = _levels(opened, name)
    else:
        grey = np.asarray(opened.convert("L"))
        mask = grey.astype(np.float32) / (1 if grey.max() == 1 else 255)
    alpha = None if transparency is None else np.asarray(transparency, np.float32) / 255
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
    rgb = colour_of(tail) if mark and not os.path.exists(path) else None
    return (Path(path), None) if rgb is None else (Path(head), rgb)


# ------------------------------------------------------------------------------------------------ colours


def _colours(opened: Image.Image, name: str, managed: bool) -> tuple[Image.Image, Image.Image | None]:
    """8-bit RGB laid on white, and the alpha if anything is transparent. managed: by the profile."""
    base, alpha = _apart(opened)
    if _deep(base):
        base = Image.fromarray((_levels(base, name) * 255).round().astype(np.uint8))
    rgb = base.convert("RGB")
    if managed and (profile := opened.info.get("icc_profile")):
        grey = opened.mode in GREYS or _deep(opened)
        rgb = _to_srgb(base.convert("L") if grey else base, rgb, profile)
    if alpha is None or alpha.getextrema() == (255, 255):
        return rgb, None
    layer = rgb.copy()
    layer.putalpha(alpha)
    return Image.alpha_composite(Image.new("RGBA", rgb.size, "white"), layer).convert("RGB"), alpha


def _apart(opened: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """A picture's colours, and its alpha (mode L) if it has any."""
    if _deep(opened):
        clear = opened.info.get("transparency")
        opaque = np.asarray(opened) != clear if isinstance(clear, int) else None
        return opened, None if opaque is None else Image.fromarray(opaque.astype(np.uint8) * 255)
    if opened.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in opened.info:
        rgba = (opened.convert("LA") if opened.mode == "La" else opened).convert("RGBA")
        return rgba.convert("RGB"), rgba.getchannel("A")
    return opened, None


def _to_srgb(base: Image.Image, plain: Image.Image, profile: bytes) -> Image.Image:
    """`base` as its ICC profile means it, in sRGB. `plain`, the numbers as they are, where the profile is
    sRGB or cannot be used.
    """
    try:
        from PIL import ImageCms

        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = SPACES.get(source.profile.xcolor_space.strip())
        if mode is None or (mode != base.mode and (mode != "RGB" or base.mode == "CMYK")):
            return plain  # a profile of other colours than the picture's
        given = plain if mode == "RGB" else base
        srgb = ImageCms.createProfile("sRGB")
        made = ImageCms.profileToProfile(given, source, srgb, outputMode="RGB")
    except Exception:  # no littlecms in this Pillow, or a damaged profile
        return plain
    if made is None:
        return plain
    if mode == "CMYK":
        return made
    moved = np.asarray(ImageChops.difference(plain, made).getextrema()).max()
    return made if moved > SAME_COLOURS else plain


def _deep(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _levels(image: Image.Image, name: str) -> np.ndarray:
    """A 16-bit, 32-bit or float picture as float32 in [0, 1]; whole numbers mean 16 bits, floats 0..1, 0..255
    or 0..65535.
    """
    values = np.asarray(image).astype(np.float32)
    top = float(values.max(initial=0.0))
    if image.mode == "F":
        scale = 1.0 if top <= 2 else 255.0 if top <= 255 else 65535.0  # up to 2: 1 and what went astray
    else:
        scale = 1.0 if top <= 1 else 65535.0
    _check_range(values, name, scale)
    return values / np.float32(scale)


def _check_range(values: np.ndarray, name: str, top: float) -> None:
    """Refuses values (any shape) that are no finite numbers from 0 to `top`."""
    if not np.isfinite(values).all():
        raise InputError(
            f"{name}: holds values that are not numbers (NaN or infinite); save it again as a PNG"
        )
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > top:
        raise InputError(f"{name}: its values run from {low:g} to {high:g}; scale them to 0..1")
