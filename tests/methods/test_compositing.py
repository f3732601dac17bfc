"""Compositing: each strategy's laws for all sizes and partitions, and OpenCV as the measure."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mast.job import InputError
from mast.methods.compositing import (
    STRATEGIES,
    alpha_weights,
    automatic_kernel,
    blend,
    blur,
    composite,
    expand,
    gaussian_pyramid,
    hard,
    laplacian_pyramid,
    levels,
    partition,
    radius,
    reconstruct,
)
from tests.methods.partitions import farthest, inside, needs_opencv, noise, tiles

EVERY = [
    pytest.param(strategy, marks=needs_opencv if strategy == "poisson" else ()) for strategy in STRATEGIES
]
sides = st.integers(1, 48)


# ------------------------------------------------------------------------------------ laws of all of them


@pytest.mark.parametrize("strategy", EVERY)
@given(height=sides, width=sides, n=st.integers(1, 5), cell=st.integers(1, 12), seed=st.integers(0, 99))
@example(height=1, width=1, n=1, cell=1, seed=0)
@example(height=1, width=48, n=3, cell=4, seed=0)
@example(height=47, width=1, n=3, cell=4, seed=0)
@example(height=2, width=2, n=2, cell=1, seed=3)
def test_a_partition_of_identical_pictures_gives_that_picture(strategy, height, width, n, cell, seed):
    picture = noise(height, width, seed)
    made = composite([picture] * n, tiles(height, width, n, seed, cell), strategy)
    assert made.dtype == np.uint8 and made.shape == picture.shape
    assert farthest(made, picture) <= 1


@pytest.mark.parametrize("strategy", EVERY)
@given(height=sides, width=sides, at=st.integers(0, 2))
def test_a_region_that_is_the_whole_picture_gives_its_picture(strategy, height, width, at):
    """For Poisson only as the first one: a cloned region keeps its gradients and takes the canvas' tone."""
    masks = np.zeros((3, height, width), np.float32)
    masks[at] = 1
    pictures = [noise(height, width, i) for i in range(3)]
    assume(strategy != "poisson" or at == 0)
    assert farthest(composite(pictures, masks, strategy), pictures[at]) <= 1


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("size", [(64, 64), (64, 65), (65, 64), (65, 65), (33, 90)])
def test_far_from_every_border_the_picture_is_the_regions_own(strategy, size):
    """Whatever the parity of the sides: two flat pictures, left and right, and a seam a few pixels wide."""
    height, width = size
    dark, light = np.full((*size, 3), 100, np.uint8), np.full((*size, 3), 110, np.uint8)
    made = composite([dark, light], inside(height, width, slice(None), slice(width // 2, None)), strategy)
    assert made[:, 0].max() <= 101
    if strategy != "poisson":  # a flat picture has no gradients to clone
        assert made[:, -1].min() >= 109
    assert (np.diff(made.astype(int), axis=1) >= 0).all(), "one step from dark to light, no ringing"
    assert farthest(made, made[:1].repeat(height, 0)) == 0, "every row is the same"


@pytest.mark.parametrize("strategy", EVERY)
def test_pictures_are_left_as_they_were(strategy):
    pictures = [noise(20, 20, i) for i in range(3)]
    before = [picture.copy() for picture in pictures]
    for n in (1, 3):
        made = composite(pictures[:n], tiles(20, 20, n), strategy)
        made[:] = 0
        assert all((a == b).all() for a, b in zip(pictures, before, strict=True))


# ------------------------------------------------------------------------------------------------ partition


def test_each_pixel_goes_to_its_largest_mask_and_a_tie_to_the_first():
    masks = np.array([[[0.5, 0.2, 1.0]], [[0.5, 0.8, 0.0]]], np.float32)
    assert partition(masks).tolist() == [[[True, False, True]], [[False, True, False]]]


@given(height=sides, width=sides, n=st.integers(1, 6), seed=st.integers(0, 99))
def test_soft_masks_that_sum_to_one_become_a_partition(height, width, n, seed):
    soft = np.random.default_rng(seed).random((n, height, width)).astype(np.float32)
    found = partition(soft / soft.sum(0))
    assert found.dtype == bool and (found.sum(0) == 1).all()


def test_masks_that_do_not_tile_are_refused_with_numbers_and_a_way_out():
    masks = np.zeros((2, 10, 10), np.float32)
    masks[0, :, :6], masks[1, :, 5:9] = 1, 1
    pictures = [noise(10, 10)] * 2
    with pytest.raises(
        InputError, match=r"10\.0% of the picture is uncovered and 10\.0% of the picture is covered twice"
    ):
        composite(pictures, masks, "hard")
    masks[0, :, 5] = 0
    with pytest.raises(
        InputError, match=r"10\.0% of the picture is uncovered; give one region no mask .* or --keep exact"
    ):
        composite(pictures, masks, "alpha")
    masks[1, :, 9], masks[0, :, 5] = 1, 1
    with pytest.raises(InputError, match=r"10\.0% of the picture is covered twice; make the masks disjoint"):
        composite(pictures, masks, "laplacian")
    masks[0, :, 5] = 0.01  # within what 8-bit soft edges may be off
    composite(pictures, masks, "hard")


def test_what_cannot_be_composited_is_refused():
    masks = tiles(8, 8, 2)
    with pytest.raises(
        InputError, match="composite is 'soft'; choose one of hard, alpha, poisson, laplacian"
    ):
        composite([noise(8, 8)] * 2, masks, "soft")
    with pytest.raises(InputError, match="1 pictures and 2 masks"):
        composite([noise(8, 8)], masks, "hard")
    with pytest.raises(InputError, match=r"picture 2 is uint8 \(8, 9, 3\); .*\(8, 8, 3\)"):
        composite([noise(8, 8), noise(8, 9)], masks, "hard")
    with pytest.raises(InputError, match="picture 1 is float32"):
        composite([noise(8, 8).astype(np.float32)] * 2, masks, "hard")
    with pytest.raises(InputError, match="at least one"):
        composite([], np.zeros((0, 8, 8), np.float32), "hard")


def test_without_opencv_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r"pip install 'mast\[composite\]'"):
        composite([noise(8, 8)] * 2, tiles(8, 8, 2), "poisson")


# --------------------------------------------------------------------------------------------- hard, alpha


@given(height=sides, width=sides, n=st.integers(1, 5), seed=st.integers(0, 99))
def test_hard_takes_every_pixel_from_its_owner(height, width, n, seed):
    pictures, masks = [noise(height, width, i) for i in range(n)], tiles(height, width, n, seed, 3)
    expected = sum(mask[..., None] * picture for picture, mask in zip(pictures, masks, strict=True))
    assert (hard(pictures, masks > 0) == expected).all()


@pytest.mark.parametrize(
    ("area", "eta"),
    [(0, 1), (1, 1), (113, 1), (114, 2), (1017, 5), (1018, 6), (1809, 7), (1810, 8), (512 * 512, 8)],
)
def test_radii_follow_the_papers_formula(area, eta):
    """sqrt(a / pi) / 3 passes 2 at a = 36 pi = 113.1, 6 at 324 pi = 1017.9, and 8 at 576 pi = 1809.6."""
    assert radius(area) == eta == max(1, math.floor(min(8, math.sqrt(area / math.pi) / 3)))


@given(height=sides, width=sides, n=st.integers(1, 5), cell=st.integers(1, 12), seed=st.integers(0, 99))
def test_alpha_weights_sum_to_one_and_reach_no_further_than_the_largest_radius(height, width, n, cell, seed):
    masks = tiles(height, width, n, seed, cell) > 0
    weights = alpha_weights(masks)
    assert weights.min() >= 0 and np.abs(weights.sum(0) - 1).max() < 1e-5
    for weight, mask in zip(weights, masks, strict=True):
        ys, xs = mask.nonzero()
        if len(ys) == 0:
            assert weight.max() == 0
            continue
        eta = radius(mask.sum())
        far = np.ones_like(mask)
        far[max(0, ys.min() - eta) : ys.max() + eta + 1, max(0, xs.min() - eta) : xs.max() + eta + 1] = False
        assert weight[far].sum() == 0


def test_alpha_mixes_where_regions_meet():
    dark, light = np.zeros((60, 60, 3), np.uint8), np.full((60, 60, 3), 200, np.uint8)
    row = composite([dark, light], inside(60, 60, slice(None), slice(30, None)), "alpha")[30, :, 0].astype(
        int
    )
    assert (row[:22] == 0).all() and (row[38:] == 200).all()
    assert (np.diff(row) >= 0).all() and row[29] + row[30] == 200 and 80 < row[29] < 100


@needs_opencv
@pytest.mark.parametrize("size", [3, 5, 7, 9, 11, 13, 15, 17])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 40), (31, 32), (40, 33, 3)])
def test_the_blur_is_opencvs(size, shape):
    import cv2

    array = np.random.default_rng(0).random(shape).astype(np.float32)
    theirs = cv2.GaussianBlur(array, (size, size), 0, borderType=cv2.BORDER_REFLECT_101)
    assert np.abs(blur(array, automatic_kernel(size)) - theirs.reshape(shape)).max() < 3e-3


# ---------------------------------------------------------------------------------------------- Laplacian


def test_levels_are_seven_at_512_and_follow_the_size():
    assert levels(512, 512) == levels(512, 900) == levels(1000, 513) == 7
    assert [levels(side, side) for side in (1, 7, 8, 15, 16, 256, 511, 1024)] == [1, 1, 1, 1, 2, 6, 6, 8]


@given(height=st.integers(1, 70), width=st.integers(1, 70), count=st.integers(1, 7), seed=st.integers(0, 99))
def test_a_pyramid_gives_its_picture_back(height, width, count, seed):
    picture = noise(height, width, seed).astype(np.float32)
    pyramid = laplacian_pyramid(picture, count)
    assert len(pyramid) == count + 1
    assert np.abs(reconstruct(pyramid) - picture).max() < 1e-2


@given(height=st.integers(1, 40), width=st.integers(1, 40), value=st.integers(0, 255))
def test_flat_stays_flat_in_every_level(height, width, value):
    flat = np.full((height, width, 1), value, np.float32)
    assert all(np.abs(level - value).max() < 1e-3 for level in gaussian_pyramid(flat, 4))
    assert all(np.abs(level).max() < 1e-3 for level in laplacian_pyramid(flat, 4)[:-1])
    half = flat[::2, ::2]
    assert np.abs(expand(half, (height, width)) - value).max() < 1e-3


@given(height=st.integers(1, 70), width=st.integers(1, 70), share=st.floats(0, 1), count=st.integers(1, 7))
def test_a_constant_mask_mixes_the_pictures_by_it(height, width, share, count):
    a, b = (noise(height, width, i).astype(np.float32) for i in (1, 2))
    made = blend(a, b, np.full((height, width), share, np.float32), count)
    assert np.abs(made - (share * a + (1 - share) * b)).max() < 1


def test_laplacian_blends_tone_widely_and_detail_narrowly():
    """What the pyramid is for: stripes end at the seam, the tone fades over a wide strip."""
    flat, striped = np.full((256, 256, 3), 60, np.uint8), np.full((256, 256, 3), 180, np.uint8)
    striped[::2] -= 40
    made = composite([flat, striped], inside(256, 256, slice(None), slice(128, None)), "laplacian").astype(
        int
    )
    stripes = np.abs(np.diff(made[..., 0], axis=0)).mean(0)
    tone = made[..., 0].mean(0)
    assert stripes[:116].max() < 4 and stripes[140:].min() > 36
    assert tone[100] > 61 and tone[156] < 159 and (np.diff(tone) > -0.6).all()


def test_the_order_of_regions_is_kept():
    """A later region is laid over an earlier one, so three flat pictures do not commute."""
    pictures = [np.full((40, 40, 3), value, np.uint8) for value in (0, 128, 255)]
    masks = tiles(40, 40, 3, 1)
    forth = composite(pictures, masks, "laplacian")
    back = composite(pictures[::-1], masks[::-1], "laplacian")
    assert farthest(forth, back) > 0
    assert (composite(pictures, masks, "hard") == composite(pictures[::-1], masks[::-1], "hard")).all()
