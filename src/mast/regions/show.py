"""Regions for the eye and for other programs: over the photo with a legend, as a colour map, as a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageColor, ImageDraw, ImageFont

from ..core.masks import area_resample, check_survival
from ..files import new_folder
from ..job import InputError
from ..sheets import BACKGROUND, INK, overlay
from .partition import NamedMasks, borders, distinct_names

# Okabe and Ito (2008), told apart by people with any kind of colour vision; then the same, darker.
SAFE = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#b0b0b0")
DARKER = 0.55
MAP, OVERLAY, ABOUT = "map.png", "overlay.png", "regions.json"
LONGEST_NAME = 60  # letters of a region's name in a file's
UNCOVERED = 0.5  # of a pixel: what no region covers to this share has no colour in a map


def palette(count: int) -> list[str]:
    """So many colours, each other than the rest up to twice the number of safe ones."""
    dark = ["#{:02x}{:02x}{:02x}".format(*(int(v * DARKER) for v in ImageColor.getrgb(c))) for c in SAFE]
    return [(*SAFE, *dark)[i % (2 * len(SAFE))] for i in range(count)]


def shares_text(regions: NamedMasks) -> list[str]:
    """NAME 12.3 %."""
    return [f"{name}  {share:.1%}" for name, share in zip(regions.names, regions.shares, strict=True)]


def picture(photo: Image.Image, regions: NamedMasks) -> Image.Image:
    """The regions over the photo with white lines between them, and below it their names and shares."""
    colours = palette(len(regions.names))
    seen = outlined(overlay(photo, regions.masks, 0.6, colours), regions)
    size = max(14, round(max(photo.size) / 48))
    font, gap, swatch = ImageFont.load_default(size), size // 2, round(size * 1.1)
    places, x, y = [], gap, gap
    for text in shares_text(regions):
        width = swatch + gap + round(font.getlength(text)) + 2 * gap
        if x + width > seen.width and x > gap:
            x, y = gap, y + swatch + gap
        places.append((x, y, text))
        x += width
    canvas = Image.new("RGB", (seen.width, seen.height + y + swatch + gap), BACKGROUND)
    canvas.paste(seen)
    draw = ImageDraw.Draw(canvas)
    for (x, y, text), colour in zip(places, colours, strict=True):
        top = seen.height + y
        draw.rectangle((x, top, x + swatch, top + swatch), fill=colour, outline=INK)
        draw.text((x + swatch + gap, top + swatch / 2), text, fill=INK, font=font, anchor="lm")
    return canvas


def outlined(seen: Image.Image, regions: NamedMasks) -> Image.Image:
    """A picture with a white line wherever one region ends; the line grows with the picture."""
    line = borders(front(regions))
    for _ in range(max(seen.size) // 1000):
        line[1:] |= line[:-1]
        line[:, 1:] |= line[:, :-1]
    pixels = np.array(seen)
    pixels[line] = 255
    return Image.fromarray(pixels)


def front(regions: NamedMasks) -> np.ndarray:
    """int (h, w): the region that covers most of each pixel; n where none covers enough."""
    best = regions.masks.argmax(0)
    return np.where(regions.masks.sum(0) >= UNCOVERED, best, len(regions.masks))


def colour_map(regions: NamedMasks) -> Image.Image:
    """A flat colour for every region, black where there is none; `read_regions` reads it again."""
    table = np.array([ImageColor.getrgb(c) for c in palette(len(regions.names))] + [(0, 0, 0)], np.uint8)
    return Image.fromarray(table[front(regions)])


def vanishing(regions: NamedMasks, grids: Sequence[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
    """The regions that would be lost on a grid (h, w) on which styles are applied, and on which."""
    masks = torch.from_numpy(regions.masks)
    lost: dict[str, list[tuple[int, int]]] = {}
    for grid in grids:
        small = area_resample(masks, grid)
        for i, name in enumerate(regions.names):
            try:
                check_survival(small[i : i + 1], grid, [name], [float(masks[i].sum())])
            except InputError:
                lost.setdefault(name, []).append(grid)
    return lost


def save_folder(
    folder: Path, photo: Image.Image, regions: NamedMasks, about: Mapping[str, Any] | None = None
) -> list[Path]:
    """One grey PNG a region, map.png and overlay.png in a folder that appears whole or not at all; about:
    what regions.json says of them, if there is to be one.
    """
    files = [f"{name}.png" for name in file_names(regions.names)]
    with new_folder(folder) as part:
        for file, mask in zip(files, regions.masks, strict=True):
            mask_picture(mask).save(part / file)
        colour_map(regions).save(part / MAP)
        picture(photo, regions).save(part / OVERLAY)
        if about is not None:
            (part / ABOUT).write_text(json.dumps({**about, "masks": files}, indent=2) + "\n")
    return [folder / file for file in (*files, MAP, OVERLAY)]


def mask_picture(mask: np.ndarray) -> Image.Image:
    return Image.fromarray((mask * 255).round().astype(np.uint8))


def file_names(names: Sequence[str]) -> list[str]:
    """Names that are safe in any file system, each once whatever the case of its letters."""
    plain = [re.sub(r"[^\w.-]+", "-", name).strip(".-")[:LONGEST_NAME].lower() or "region" for name in names]
    return distinct_names(plain, (Path(MAP).stem, Path(OVERLAY).stem))
