"""Poisson compositing: OpenCV's clone, but nothing shifts, drifts or crashes, wherever a region is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mast.methods.compositing import MARGIN, composite
from tests.methods.partitions import farthest, inside, noise, smooth, tiles

cv2 = pytest.importorskip("cv2")

PLACES = [slice(0, 10), slice(0, 11), slice(5, 20), slice(5, 21), slice(-9, None), slice(-10, None)]
PLACES += [slice(None), slice(-1, None), slice(0, 1), slice(0, 2), slice(13, 14)]


@pytest.mark.parametrize("rows", PLACES, ids=str)
@pytest.mark.parametrize("columns", PLACES, ids=str)
@pytest.mark.parametrize("size", [(40, 41), (41, 40)])
def test_poisson_shifts_nothing_wherever_the_region_is(rows, columns, size):
    picture = noise(*size)
    masks = inside(*size, rows, columns)
    assert farthest(composite([picture, picture], masks, "poisson"), picture) <= 1


@pytest.mark.parametrize("side", [15, 16])
def test_poisson_of_several_parts_and_single_pixels(side):
    picture = noise(40, 40)
    masks = inside(40, 40, slice(2, 2 + side), slice(3, 3 + side))
    masks[1, 30:39, 25:40], masks[1, 0, 39], masks[1, 39, 0] = 1, 1, 1
    masks[0] = 1 - masks[1]
    assert farthest(composite([picture, picture], masks, "poisson"), picture) <= 1


@pytest.mark.parametrize("rows", [slice(8, 40), slice(0, 30), slice(None)], ids=str)
@pytest.mark.parametrize("columns", [slice(8, 41), slice(30, None), slice(None)], ids=str)
def test_poisson_keeps_the_regions_gradients_up_to_the_pictures_border(rows, columns):
    """The source is texture in a light picture, the canvas flat and dark; where it is cloned its texture
    stands, in the canvas' tone. OpenCV works from three pixels inside the region's edge."""
    source = np.full((60, 60, 3), 160, np.uint8)
    source[::4] = 176
    source[1::4] = 176
    canvas = np.full((60, 60, 3), 80, np.uint8)
    made = composite([canvas, source], inside(60, 60, rows, columns), "poisson").astype(int)
    top, bottom, _ = rows.indices(60)
    left, right, _ = columns.indices(60)
    inner = np.s_[
        top + 4 * (top > 0) : bottom - 4 * (bottom < 60), left + 4 * (left > 0) : right - 4 * (right < 60)
    ]
    texture = np.abs(np.diff(made, axis=0))[inner][:-1]
    asked = np.abs(np.diff(source.astype(int), axis=0))[inner][:-1]
    assert np.abs(texture - asked).max() <= 3
    assert abs(made[inner].mean() - 80) < 16, "the canvas' tone, not the source's"
    assert (made[:top] == 80).all() and (made[:, right:] == 80).all(), "nothing beyond the bounding box"


def test_poisson_is_opencvs_clone_where_no_border_is_near():
    source, canvas = smooth(70, 80, 1), smooth(70, 80, 2)
    for height, width in ((30, 31), (31, 30)):
        masks = inside(70, 80, slice(20, 20 + height), slice(20, 20 + width))
        region = (masks[1] * 255).astype(np.uint8)
        centre = (20 + width // 2, 20 + height // 2)
        theirs = cv2.seamlessClone(source, canvas, region, centre, cv2.NORMAL_CLONE)
        ours = composite([canvas, source], masks, "poisson")
        assert farthest(ours, theirs) <= 1 and farthest(ours, canvas) > 20


def test_a_region_too_thin_to_be_cloned_is_pasted():
    dark, light = np.zeros((40, 40, 3), np.uint8), np.full((40, 40, 3), 200, np.uint8)
    masks = inside(40, 40, slice(10, 14), slice(5, 30))
    made = composite([dark, light], masks, "poisson")
    assert (made[masks[1] > 0] == 200).all() and (made[masks[1] == 0] == 0).all()


@settings(max_examples=10)
@given(n=st.integers(2, 5), seed=st.integers(0, 99))
def test_poisson_does_not_drift_with_the_number_of_regions(n, seed):
    """OpenCV alone darkens the picture by up to a level for each."""
    picture = smooth(51, 64, seed)
    assert farthest(composite([picture] * n, tiles(51, 64, n, seed), "poisson"), picture) <= 1
    assert MARGIN > 4


# ------------------------------------------------------------ as released


@pytest.mark.parametrize("rows", [slice(8, 40), slice(0, 30), slice(30, None)], ids=str)
@pytest.mark.parametrize("columns", [slice(8, 41), slice(30, None), slice(0, 30)], ids=str)
def test_as_released_it_is_opencvs_clone_and_nothing_else(rows, columns):
    source, canvas = smooth(60, 60, 1), smooth(60, 60, 2)
    masks = inside(60, 60, rows, columns)
    region = (masks[1] * 255).astype(np.uint8)
    left, top, width, height = cv2.boundingRect(region)
    centre = (left + width // 2, top + height // 2)
    theirs = cv2.seamlessClone(source, canvas, region, centre, cv2.NORMAL_CLONE)
    made = composite([canvas, source], masks, "poisson", released=True)
    assert np.array_equal(made, theirs)
    assert not np.array_equal(made, composite([canvas, source], masks, "poisson"))


@pytest.mark.parametrize("strategy", ["hard", "alpha", "laplacian"])
def test_as_released_the_others_are_the_same(strategy):
    pictures, masks = [smooth(40, 40, seed) for seed in (1, 2)], inside(40, 40, slice(5, 30), slice(9, 33))
    ours, theirs = (composite(pictures, masks, strategy, released) for released in (False, True))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("place", [slice(3, 4), slice(0, 1), slice(0, 2), slice(-1, None)], ids=str)
def test_as_released_a_few_pixels_make_no_crash(place):
    dark, light = np.zeros((40, 40, 3), np.uint8), np.full((40, 40, 3), 200, np.uint8)
    made = composite([dark, light], inside(40, 40, place, place), "poisson", released=True)
    assert made.shape == dark.shape and made.dtype == np.uint8
