"""Pictures for people: masks over a photo, and contact sheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#46c8e0", "#f032e6", "#bfef45")
BACKGROUND, INK = "#fbfaf7", "#2a2a2a"
GAP, CAPTION = 12, 24
WIDEST = 4  # times the height of its row that a picture of a sheet may be wide


def region_colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def overlay(photo: Image.Image, masks: np.ndarray, opacity: float = 0.55) -> Image.Image:
    """The photo in grey with every mask (n, h, w), 0..1, in its region's colour."""
    base = np.asarray(ImageOps.autocontrast(photo.convert("L")).convert("RGB"), np.float32)
    colours = np.array(
        [Image.new("RGB", (1, 1), region_colour(i)).getpixel((0, 0)) for i in range(len(masks))], np.float32
    )
    if len(masks):
        cover = np.clip(masks.sum(0), 0, 1)[..., None]
        tint = np.tensordot(masks, colours, (0, 0)) / np.maximum(masks.sum(0), 1e-6)[..., None]
        base = base * (1 - opacity * cover) + tint * opacity * cover
    return Image.fromarray(base.round().clip(0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Cell:
    """A picture of a sheet, its caption, and the colour of its frame."""

    image: Image.Image
    caption: str = ""
    frame: str | None = None


def sheet(rows: Sequence[Sequence[Cell]], height: int = 256, title: str | None = None) -> Image.Image:
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
) -> list[Cell]:
    """Photo, masks over it, the styles framed in their region's colour, and the result."""
    return [
        Cell(photo, "photo"),
        Cell(overlay(photo, masks), "regions"),
        *[Cell(image, name, region_colour(i)) for i, (image, name) in enumerate(styles)],
        Cell(result, caption),
    ]
