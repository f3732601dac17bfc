"""Masks over a photo, and contact sheets."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFont

from mast.sheets import (
    BACKGROUND,
    CAPTION,
    COLOURS,
    GAP,
    WIDEST,
    Tile,
    _shorten,
    contact_row,
    overlay,
    region_colour,
    sheet,
)


def rgb(colour: str) -> np.ndarray:
    return np.array(Image.new("RGB", (1, 1), colour).getpixel((0, 0)), float)


@pytest.fixture
def photo() -> Image.Image:
    ramp = np.tile(np.linspace(0, 255, 60).astype(np.uint8), (40, 1))
    return Image.merge("RGB", [Image.fromarray(ramp)] * 3)


@pytest.fixture
def masks() -> np.ndarray:
    masks = np.zeros((2, 40, 60), np.float32)
    masks[0, :, :20], masks[1, :, 20:40] = 1, 1
    return masks


def test_overlay_colours_the_pixels_of_each_mask_and_no_other(photo: Image.Image, masks: np.ndarray):
    grey = np.asarray(photo, float)
    seen = np.asarray(overlay(photo, masks, opacity=0.5), float)
    assert np.abs(seen[:, 40:] - grey[:, 40:]).max() <= 1
    for i, columns in enumerate((slice(0, 20), slice(20, 40))):
        expected = grey[:, columns] * 0.5 + rgb(region_colour(i)) * 0.5
        assert np.abs(seen[:, columns] - expected).max() <= 1


def test_overlay_mixes_soft_and_shared_pixels(photo: Image.Image):
    both = np.full((2, 40, 60), 0.5, np.float32)
    seen = np.asarray(overlay(photo, both, opacity=1), float)
    assert np.abs(seen - (rgb(COLOURS[0]) + rgb(COLOURS[1])) / 2).max() <= 1
    quarter = np.asarray(overlay(photo, both[:1] / 2, opacity=1), float)
    assert np.abs(quarter - (np.asarray(photo, float) * 0.75 + rgb(COLOURS[0]) * 0.25)).max() <= 1


def test_overlay_without_regions_is_the_grey_photo(photo: Image.Image):
    seen = overlay(photo, np.zeros((0, 40, 60), np.float32))
    assert seen.size == photo.size and np.abs(np.asarray(seen, int) - np.asarray(photo, int)).max() <= 1


# Machado, Oliveira and Fernandes (2009): light as people without one of the three cones see it.
SIGHT = {
    "red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.mark.parametrize("missing", SIGHT)
def test_colours_are_told_apart_without_one_kind_of_cone(missing: str):
    values = np.array([rgb(colour) for colour in COLOURS]) / 255
    light = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = np.clip(light @ np.array(SIGHT[missing]).T, 0, 1) @ XYZ.T / (XYZ.sum(1))
    f = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + 1000 * np.eye(len(COLOURS))
    assert apart.min() > 14, "of CIE Lab's units, of which one sees two or three at best"


def test_more_regions_than_colours(photo: Image.Image):
    assert overlay(photo, np.full((11, 40, 60), 1 / 11, np.float32)).size == (60, 40)
    assert region_colour(len(COLOURS)) == COLOURS[0]


def test_a_sheet_is_as_large_as_its_rows(photo: Image.Image):
    one = sheet([[Tile(photo, "photo")] * 2, [Tile(photo)]], height=80)
    assert one.size == (GAP + 2 * (120 + GAP), GAP + 2 * (80 + CAPTION + GAP))
    titled = sheet([[Tile(photo)]], height=80, title="a title much too long for so small a sheet of paper")
    assert titled.height > GAP + 80 + CAPTION + GAP
    right_margin = np.asarray(titled)[:, -GAP:]
    assert (right_margin == rgb(BACKGROUND)).all(), "the title ends before the edge"


def test_pictures_stand_where_they_should_with_frames_of_their_colour(photo: Image.Image):
    pixels = np.asarray(sheet([[Tile(photo), Tile(photo, frame="#ff0000")]], height=40))
    assert (pixels[GAP : GAP + 40, GAP : GAP + 60] == np.asarray(photo)).all()
    second = GAP + 60 + GAP
    assert (pixels[GAP - 2, second - 2] == (255, 0, 0)).all()
    assert (pixels[GAP : GAP + 40, second : second + 60] == np.asarray(photo)).all(), "the frame is around it"


@pytest.mark.parametrize("caption", ["", "x", "a caption that never fits under it", "W" * 300, "漢字" * 40])
def test_captions_fit_under_their_picture(photo: Image.Image, caption: str):
    font = ImageFont.load_default(14)
    for width in (0, 5, 60, 200):
        short = _shorten(caption, width, font)
        assert font.getlength(short) <= width or short == ""
    assert _shorten("short", 200, font) == "short"
    with_caption = np.asarray(sheet([[Tile(photo, caption)]], height=40))
    assert (with_caption[:, GAP + 60 + 2 :] == rgb(BACKGROUND)).all()


def test_a_very_wide_picture_does_not_make_a_very_wide_sheet():
    wide, tall = Image.new("RGB", (4000, 20), "blue"), Image.new("RGB", (20, 4000), "blue")
    drawn = sheet([[Tile(wide, "wide"), Tile(tall, "tall")]], height=64)
    assert drawn.width == GAP + WIDEST * 64 + GAP + 1 + GAP  # a tall one keeps at least one column
    pixels = np.asarray(drawn)
    assert (pixels[GAP + 32, GAP + 5] == (0, 0, 255)).all(), "in the middle of its row"
    assert (pixels[GAP + 2, GAP + 5] == rgb(BACKGROUND)).all()


def test_a_sheet_of_nothing_is_blank_paper():
    assert sheet([]).size == (GAP, GAP)


def test_a_contact_row_shows_photo_regions_styles_and_result(photo: Image.Image, masks: np.ndarray):
    styles = [(Image.new("RGB", (30, 30)), "waves"), (Image.new("L", (30, 30)), "mosaic")]
    row = contact_row(photo, masks, styles, photo, "done")
    assert [cell.caption for cell in row] == ["photo", "regions", "waves", "mosaic", "done"]
    assert [cell.frame for cell in row] == [None, None, COLOURS[0], COLOURS[1], None]
    assert sheet([row]).height == GAP + 256 + CAPTION + GAP
    assert len(contact_row(photo, masks[:0], [], photo)) == 3
