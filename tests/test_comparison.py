"""The sheet that compares methods: which part of a region it enlarges, and what stands where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.sheets import BACKGROUND, CAPTION, COLUMNS, GAP, INSIDE, SCALES, comparison, region_colour, view

HEIGHT = 60


def rgb(colour: str) -> tuple[int, ...]:
    return Image.new("RGB", (1, 1), colour).getpixel((0, 0))


@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    box=st.tuples(*[st.floats(0, 1)] * 4),
)
def test_a_view_lies_in_the_photo_has_its_shape_and_shows_the_region(height, width, box):
    mask = np.zeros((height, width), np.float32)
    top, bottom = sorted(int((height - 1) * share) for share in box[:2])
    left, right = sorted(int((width - 1) * share) for share in box[2:])
    mask[top : bottom + 1, left : right + 1] = 1
    x0, y0, x1, y1 = view(mask)
    assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
    assert abs((x1 - x0) / width - (y1 - y0) / height) <= 1 / width + 1 / height
    assert mask[y0:y1, x0:x1].sum() > 0


def test_a_view_is_as_large_as_the_region_allows_and_in_its_middle():
    mask = np.ones((100, 200), np.float32)
    assert view(mask) == (50, 25, 150, 75)
    mask[:, 100:] = 0
    left, top, right, bottom = view(mask)
    assert (right - left, bottom - top) == (100, 50) and right <= 106 and top == 25
    mask[:] = 0
    mask[10:42, 120:184] = 1
    left, top, right, bottom = view(mask)
    assert mask[top:bottom, left:right].mean() >= INSIDE
    assert right - left == 200 * SCALES[2], "the largest scale that fits"


def test_a_thin_region_is_shown_where_most_of_it_is():
    mask = np.zeros((100, 100), np.float32)
    mask[70, 10:90] = 1
    left, top, right, bottom = view(mask)
    assert (right - left, bottom - top) == (25, 25) and top <= 70 < bottom
    assert abs((left + right) / 2 - 50) <= 2


def test_a_region_of_nothing_is_shown_as_the_whole_photo():
    assert view(np.zeros((30, 40), np.float32)) == (0, 0, 40, 30)


@pytest.fixture
def masks() -> np.ndarray:
    masks = np.zeros((2, 60, 90), np.float32)
    masks[0, :, :45], masks[1, :, 45:] = 1, 1
    return masks


def at(pixels: np.ndarray, row: int, column: int) -> np.ndarray:
    """The picture in a place of the sheet; all are 90 x 60."""
    y, x = GAP + row * (HEIGHT + CAPTION + GAP), GAP + column * (90 + GAP)
    return pixels[y : y + HEIGHT, x : x + 90]


def test_photo_methods_and_styles_stand_in_rows_and_columns(masks):
    photo = Image.new("RGB", (90, 60), "#808080")
    halves = np.zeros((60, 90, 3), np.uint8)
    halves[:, :45], halves[:, 45:] = (250, 0, 0), (0, 0, 250)
    styles = [(Image.new("RGB", (50, 50), "#00fa00"), "green"), (Image.new("RGB", (9, 90), "#fafa00"), "y")]
    pictures = [(Image.fromarray(halves), "mast", "3.0 s"), (photo.resize((180, 120)), "other", "")]
    pixels = np.asarray(comparison(photo, masks, styles, pictures, height=HEIGHT))
    assert pixels.shape[:2] == (GAP + 3 * (HEIGHT + CAPTION + GAP), GAP + 4 * (90 + GAP))
    assert (at(pixels, 0, 1) == 128).all(), "the photo"
    assert (at(pixels, 0, 2) == halves).all(), "a whole picture"
    assert (at(pixels, 0, 3) == 128).all(), "one of another size is fitted"
    overlay = at(pixels, 0, 0)[3, 3].astype(int)
    assert overlay[0] > overlay[1] + 20, "regions in their colours"
    for i, colour in enumerate(("#00fa00", "#fafa00")):
        style = at(pixels, 1 + i, 0)
        assert tuple(style[30, 45]) == rgb(colour), "its style"
        assert tuple(style[1, 1]) == rgb(BACKGROUND), "whole, on paper"
        assert (at(pixels, 1 + i, 1) == 128).all()
    first, second = at(pixels, 1, 2), at(pixels, 2, 2)
    assert (first[:, :60] == (250, 0, 0)).all(), "enlarged, and of region 1"
    assert (second[:, 30:] == (0, 0, 250)).all(), "and of region 2"
    x, y = GAP + 2 * (90 + GAP), GAP + HEIGHT + CAPTION + GAP
    assert tuple(pixels[y - 2, x + 10]) == rgb(region_colour(0)), "framed in the region's colour"


@pytest.mark.parametrize(
    ("count", "bands", "across"),
    [(0, 1, 0), (1, 1, 1), (COLUMNS, 1, COLUMNS), (COLUMNS + 2, 2, COLUMNS // 2 + 2), (11, 3, 4)],
)
def test_more_methods_than_fit_side_by_side_go_on_below(masks, count, bands, across):
    photo = Image.new("RGB", (90, 60))
    styles = [(photo, "a"), (photo, "b")]
    made = comparison(photo, masks, styles, [(photo, f"m{i}", "") for i in range(count)], height=HEIGHT)
    assert made.height == GAP + bands * 3 * (HEIGHT + CAPTION + GAP)
    assert made.width == GAP + (2 + across) * (90 + GAP)


def test_the_title_stands_above(masks):
    photo = Image.new("RGB", (90, 60))
    plain, titled = (
        comparison(photo, masks[:1], [(photo, "a")], [(photo, "mast", "")], title, HEIGHT)
        for title in (None, "cat")
    )
    assert titled.height > plain.height
    assert (np.asarray(photo) == 0).all(), "inputs are not drawn on"
