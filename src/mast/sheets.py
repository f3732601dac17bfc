"""Pictures for people: masks over a photo, and contact sheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont, ImageOps

COLOURS = ("#d55e00", "#0072b2", "#f0e442", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5b2a86")
"""Okabe and Ito's, and a violet: people who see fewer colours tell them apart. The studio has the same."""
BACKGROUND, INK = "#fbfaf7", "#2a2a2a"
GAP, CAPTION = 12, 24
WIDEST = 4  # times the height of its row that a picture of a sheet may be wide


def region_colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def overlay(
    photo: Image.Image, masks: np.ndarray, opacity: float = 0.55, colours: Sequence[str] = COLOURS
) -> Image.Image:
    """The photo in grey with every mask (n, h, w), 0..1, in its region's colour."""
    base = np.asarray(ImageOps.autocontrast(photo.convert("L")).convert("RGB"), np.float32)
    inks = np.array([ImageColor.getrgb(colours[i % len(colours)]) for i in range(len(masks))], np.float32)
    if len(masks):
        cover = np.clip(masks.sum(0), 0, 1)[..., None]
        tint = np.tensordot(masks, inks, (0, 0)) / np.maximum(masks.sum(0), 1e-6)[..., None]
        base = base * (1 - opacity * cover) + tint * opacity * cover
    return Image.fromarray(base.round().clip(0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Tile:
    """A picture of a sheet, its caption, and the colour of its frame."""

    image: Image.Image
    caption: str = ""
    frame: str | None = None


def sheet(rows: Sequence[Sequence[Tile]], height: int = 256, title: str | None = None) -> Image.Image:
    """Rows of pictures of one height with captions under them, on paper."""
    font, large = ImageFont.load_default(14), ImageFont.load_default(20)
    fitted = [[(cell, _fit(cell.image, height)) for cell in row] for row in rows]
    width = max((sum(image.width + GAP for _, image in row) for row in fitted), default=0) + GAP
    top = GAP + (34 if title else 0)
    canvas = Image.new("RGB", (width, top + len(rows) * (height + CAPTION + GAP)), BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    if title:
        draw.text((GAP, GAP), _shorten(title, width - 2 * GAP, large), fill=INK, font=large)
    for r, row in enumerate(fitted):
        x, y = GAP, top + r * (height + CAPTION + GAP)
        for cell, image in row:
            canvas.paste(image, (x, y))
            if cell.frame:
                draw.rectangle(
                    (x - 4, y - 4, x + image.width + 3, y + height + 3), outline=cell.frame, width=4
                )
            draw.text((x, y + height + 6), _shorten(cell.caption, image.width, font), fill=INK, font=font)
            x += image.width + GAP
    return canvas


def _fit(image: Image.Image, height: int) -> Image.Image:
    """At the row's height; a very wide picture keeps to WIDEST times that, on paper."""
    image, width = image.convert("RGB"), max(1, round(image.width * height / image.height))
    if width <= WIDEST * height:
        return image.resize((width, height), Image.Resampling.LANCZOS)
    return ImageOps.pad(image, (WIDEST * height, height), Image.Resampling.LANCZOS, BACKGROUND)


def _shorten(text: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    while text and font.getlength(text) > width:
        text = text[:-2].rstrip() + "…" if len(text) > 2 else ""
    return text


def contact_row(
    photo: Image.Image,
    masks: np.ndarray,
    styles: Sequence[tuple[Image.Image, str]],
    result: Image.Image,
    caption: str = "result",
) -> list[Tile]:
    """Photo, masks over it, the styles framed in their region's colour, and the result."""
    return [
        Tile(photo, "photo"),
        Tile(overlay(photo, masks), "regions"),
        *[Tile(image, name, region_colour(i)) for i, (image, name) in enumerate(styles)],
        Tile(result, caption),
    ]


# ------------------------------------------------------------------------------------------


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
                Tile(_marked(overlay(photo, masks), views), "regions"),
                Tile(photo, "photo"),
                *[Tile(picture, f"{name}{said and ', '}{said}") for picture, name, said in band],
            ]
        )
        for i, ((style, style_name), box) in enumerate(zip(styles, views, strict=True)):
            colour = region_colour(i)
            rows.append(
                [
                    Tile(_framed(style, photo.size, colour), style_name),
                    Tile(photo.crop(box), "photo", colour),
                    *[Tile(picture.crop(box), name, colour) for picture, name, _ in band],
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
