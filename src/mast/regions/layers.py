"""Layered files as artists have them: Photoshop's PSD and OpenRaster (Krita, GIMP, MyPaint). Every layer or
group at the top is a region of its name; where it is painted counts, not in which colour.
"""

from __future__ import annotations

import io
import logging
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image

from ..images import LARGEST
from ..job import InputError

STACK = "stack.xml"
LARGEST_STACK = 1 << 20  # bytes of OpenRaster's list of layers
LARGEST_FILE = 1 << 29  # bytes of one of its pictures
MOST_LAYERS = 256
GREY = 8  # 8-bit levels by which the channels of a grey picture may differ


@dataclass
class Layer:
    """alpha: uint8 (h, w) of the whole canvas, where the layer or its group is painted; grey: the lightness
    of an opaque layer without colours. A group knows its layers.
    """

    name: str
    alpha: np.ndarray
    grey: np.ndarray | None = None
    inside: list[Layer] = field(default_factory=list)


def read_layers(path: Path) -> tuple[list[tuple[str, np.ndarray]], list[str]]:
    """The regions (name, mask) of a layered file from the top down, and notes on what was passed over."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the path of the layered file")
    layers = _open_raster(path) if path.suffix.lower() == ".ora" else _photoshop(path)
    if len(layers) == 1 and layers[0].inside:  # everything lies in one group
        layers = layers[0].inside
    regions, notes = [], []
    for layer in layers:
        mask = _mask(layer)
        if mask is None:
            notes.append(f"{path}: layer {layer.name!r} covers everything; it is taken for the photo itself")
        elif mask.max() == 0:
            notes.append(f"{path}: layer {layer.name!r} is empty and left out")
        else:
            regions.append((layer.name, mask))
    if not regions:
        raise InputError(
            f"{path}: no layer can be a region ({'; '.join(notes) or 'it has none'}); paint every region on "
            "a transparent layer of its own and give it a name"
        )
    return regions, notes


def _mask(layer: Layer) -> np.ndarray | None:
    """float32 (h, w): where a layer is painted; of an opaque black-and-white one where it is white; None for
    a picture.
    """
    if layer.alpha.min() < 255:
        return layer.alpha.astype(np.float32) / 255
    if layer.grey is None or np.ptp(layer.grey) == 0:
        return None
    return layer.grey.astype(np.float32) / 255


def _painted(name: str, image: Image.Image, at: tuple[int, int], canvas: tuple[int, int]) -> Layer:
    """A picture put on an empty canvas (w, h) with its upper left corner at (x, y)."""
    whole = Image.new("RGBA", canvas)
    whole.paste(image.convert("RGBA"), at)
    pixels = np.asarray(whole)
    alpha, colours = pixels[..., 3], pixels[..., :3]
    opaque_grey = alpha.min() == 255 and int(np.ptp(colours, axis=-1).max()) <= GREY
    return Layer(name, alpha, colours[..., 1] if opaque_grey else None)


def _group(name: str, inside: list[Layer], canvas: tuple[int, int]) -> Layer:
    """What shows through all layers of a group is not painted."""
    through = np.ones((canvas[1], canvas[0]), np.float32)
    for layer in inside:
        through *= 1 - layer.alpha / np.float32(255)
    alpha = ((1 - through) * 255).round().astype(np.uint8)
    return Layer(name, alpha, inside[0].grey if len(inside) == 1 else None, inside)


def _check_canvas(path: Path, size: tuple[int, int]) -> None:
    if min(size) < 1 or size[0] * size[1] > LARGEST:
        raise InputError(f"{path}: a canvas of {size[0]}x{size[1]} pixels; at most {LARGEST:,} can be read")


def _check_count(path: Path, layers: int) -> None:
    if layers > MOST_LAYERS:
        raise InputError(f"{path}: {layers} layers; merge them to at most {MOST_LAYERS}, one a region")


# ------------------------------------------------------------ Photoshop


def _photoshop(path: Path) -> list[Layer]:
    try:
        from psd_tools import PSDImage
    except ImportError as error:
        raise InputError(f"{path}: PSD files need psd-tools; pip install 'mast[segment]'") from error
    logging.getLogger("psd_tools").setLevel(logging.CRITICAL)  # it tells the screen about every odd byte
    try:
        file = PSDImage.open(path)
        canvas = (int(file.width), int(file.height))
        _check_canvas(path, canvas)
        _check_count(path, sum(1 for _ in file.descendants()))
        return [_psd_layer(path, layer, canvas) for layer in reversed(list(file)) if layer.visible]
    except InputError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise InputError(f"{path}: not a Photoshop file, or damaged; save it again") from error


def _psd_layer(path: Path, layer: Any, canvas: tuple[int, int]) -> Layer:
    if layer.is_group():
        inside = [_psd_layer(path, one, canvas) for one in reversed(list(layer)) if one.visible]
        found = _group(layer.name, inside, canvas)
    else:
        _check_canvas(path, (max(1, layer.width), max(1, layer.height)))
        image = layer.topil() if layer.has_pixels() else None
        if image is None:  # a fill or an adjustment: its mask alone says where
            alpha = np.full((canvas[1], canvas[0]), 255 if layer.has_mask() else 0, np.uint8)
            found = Layer(layer.name, alpha)
        else:
            found = _painted(layer.name, image, (layer.left, layer.top), canvas)
    if layer.has_mask() and not layer.mask.disabled:
        mask = Image.new("L", canvas, layer.mask.background_color)
        if (drawn := layer.mask.topil()) is not None:
            mask.paste(drawn.convert("L"), (layer.mask.left, layer.mask.top))
        found.alpha = np.minimum(found.alpha, np.asarray(mask))
    return found


# ------------------------------------------------------------ OpenRaster


def _open_raster(path: Path) -> list[Layer]:
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(STACK).file_size > LARGEST_STACK:
                raise ValueError("its list of layers is far too long")
            text = archive.read(STACK)
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise ValueError("its list of layers defines entities")
            image = ElementTree.fromstring(text)
            canvas = (int(image.get("w", "0")), int(image.get("h", "0")))
            _check_canvas(path, canvas)
            _check_count(path, len(list(image.iter("layer"))))
            stack = image.find("stack")
            return [] if stack is None else _ora_layers(archive, stack, (0, 0), canvas)
    except InputError:
        raise
    except Exception as error:  # zip, XML and PNG fail in many ways
        raise InputError(f"{path}: not an OpenRaster file, or damaged ({error}); save it again") from error


def _ora_layers(
    archive: zipfile.ZipFile, stack: ElementTree.Element, at: tuple[int, int], canvas: tuple[int, int]
) -> list[Layer]:
    found = []
    for number, entry in enumerate(stack):
        if entry.get("visibility", "visible") != "visible":
            continue
        name = entry.get("name") or f"{entry.tag}-{number + 1}"
        place = (at[0] + int(entry.get("x", "0")), at[1] + int(entry.get("y", "0")))
        if entry.tag == "stack":
            found.append(_group(name, _ora_layers(archive, entry, place, canvas), canvas))
        elif entry.tag == "layer" and (source := entry.get("src")):
            if archive.getinfo(source).file_size > LARGEST_FILE:
                raise ValueError(f"layer {name!r} is far too large")
            image = Image.open(io.BytesIO(archive.read(source)), formats=["PNG"])
            if image.width * image.height > LARGEST:
                raise ValueError(f"layer {name!r} has far too many pixels")
            found.append(_painted(name, image, place, canvas))
    return found
