"""One sheet that compares methods on one job: whole pictures above, and below, region by region, enlarged
views beside the style each should follow (as the paper's regional comparison does).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from .pictures import BACKGROUND, Cell, overlay, region_colour, sheet

COLUMNS = 5  # methods side by side; more go on below
SCALES = (0.5, 0.4, 0.32, 0.25, 0.2, 0.16)  # of the photo's sides that an enlarged view may show
INSIDE = 0.9  # how much of a view should belong to its region
FRAME = 0.015  # of a picture's height: the line around a style, and around a view on the overlay


def view(mask: np.ndarray) -> tuple[int, int, int, int]:
    """The part of the photo (left, top, right, bottom) that shows a region best, in the photo's own shape.

    mask: (h, w), 0..1. The largest view that lies in the region almost wholly, near the region's middle;
    of a region too thin for any, a view of a quarter of the sides where most of it is.
    """
    height, width = mask.shape
    if mask.sum() == 0:
        return 0, 0, width, height
    sums = np.pad(mask.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    for scale in SCALES:
        box, share = _best(sums, scale)
        if share >= INSIDE:
            return box
    return _best(sums, 0.25)[0]


def _best(sums: np.ndarray, scale: float) -> tuple[tuple[int, int, int, int], float]:
    """The view of this scale that holds most of the mask, and how much of the view that is.

    sums: (h + 1, w + 1), the mask summed up from the upper left.
    """
    height, width = sums.shape[0] - 1, sums.shape[1] - 1
    h, w = max(1, round(height * scale)), max(1, round(width * scale))
    inside = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
    total = sums[-1, -1]
    middle = [  # of the mask: the line with half of it on either side
        float(np.searchsorted(sums[:, -1], total / 2)) - h / 2,
        float(np.searchsorted(sums[-1], total / 2)) - w / 2,
    ]
    ys, xs = np.nonzero(inside >= inside.max() - 0.01 * h * w)
    nearest = np.argmin((ys - middle[0]) ** 2 + (xs - middle[1]) ** 2)
    top, left = int(ys[nearest]), int(xs[nearest])
    return (left, top, left + w, top + h), float(inside[top, left]) / (h * w)


def comparison(
    photo: Image.Image,
    masks: np.ndarray,
    styles: Sequence[tuple[Image.Image, str]],
    pictures: Sequence[tuple[Image.Image, str, str]],
    title: str | None = None,
    height: int = 256,
) -> Image.Image:
    """masks: (N, h, w); styles: N pictures with their names; pictures: of each method, with its name and
    what else to say under the whole picture.

    A column for the photo and one per method. The first row shows the regions and the whole pictures; then
    a row per region: its style, and the same part of every picture.
    """
    views = [view(mask) for mask in masks]
    fitted = [(p if p.size == photo.size else p.resize(photo.size), name, said) for p, name, said in pictures]
    bands = max(1, -(-len(fitted) // COLUMNS))
    across = max(1, -(-len(fitted) // bands))  # seven are four and three, not five and two
    rows = []
    for first in range(0, bands * across, across):
        band = fitted[first : first + across]
        rows.append(
            [
                Cell(_marked(overlay(photo, masks), views), "regions"),
                Cell(photo, "photo"),
                *[Cell(picture, f"{name}{said and ', '}{said}") for picture, name, said in band],
            ]
        )
        for i, ((style, style_name), box) in enumerate(zip(styles, views, strict=True)):
            colour = region_colour(i)
            rows.append(
                [
                    Cell(_framed(style, photo.size, colour), style_name),
                    Cell(photo.crop(box), "photo", colour),
                    *[Cell(picture.crop(box), name, colour) for picture, name, _ in band],
                ]
            )
    return sheet(rows, height, title)


def _marked(picture: Image.Image, views: Sequence[tuple[int, int, int, int]]) -> Image.Image:
    """With a white frame around every view."""
    draw, line = ImageDraw.Draw(picture), max(1, round(FRAME * picture.height))
    for left, top, right, bottom in views:
        draw.rectangle((left, top, right - 1, bottom - 1), outline="white", width=line)
    return picture


def _framed(style: Image.Image, size: tuple[int, int], colour: str) -> Image.Image:
    """The whole style in its region's colour, on paper of the shape that all pictures of the sheet have."""
    line = max(1, round(FRAME * style.height))
    return ImageOps.pad(ImageOps.expand(style.convert("RGB"), line, colour), size, color=BACKGROUND)
