"""Editing masks: laws that hold for all of them, and what a person expects of some."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError
from mast.regions import edit

H, W = 40, 56


@st.composite
def masks(draw: st.DrawFn) -> np.ndarray:
    """Hard or soft blobs, specks and holes."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    kind = draw(st.sampled_from(["noise", "blobs", "soft", "full", "empty"]))
    if kind in ("full", "empty"):
        return np.full((H, W), float(kind == "full"), np.float32)
    noise = rng.random((H, W)).astype(np.float32)
    if kind == "noise":
        return (noise < draw(st.floats(0.05, 0.95))).astype(np.float32)
    smooth = edit.feather(noise, 6)
    smooth = (smooth - smooth.min()) / max(1e-6, float(np.ptp(smooth)))
    return smooth if kind == "soft" else (smooth > 0.5).astype(np.float32)


radii = st.floats(0, 6)


def disc(radius: float, at: tuple[int, int] = (H // 2, W // 2)) -> np.ndarray:
    ys, xs = np.mgrid[:H, :W]
    return (np.hypot(ys - at[0], xs - at[1]) <= radius).astype(np.float32)


@given(masks(), radii)
def test_every_operation_gives_a_mask_and_leaves_its_own_alone(mask: np.ndarray, radius: float) -> None:
    before = mask.copy()
    photo = Image.fromarray(np.uint8(np.stack([mask * 200] * 3, -1)))
    for made in (
        edit.grow(mask, radius),
        edit.shrink(mask, radius),
        edit.feather(mask, radius),
        edit.invert(mask),
        edit.fill_holes(mask),
        edit.drop_specks(mask, radius),
        edit.snap(mask, photo),
    ):
        assert made.shape == mask.shape and made.dtype == np.float32
        assert made.min() >= 0 and made.max() <= 1
    assert np.array_equal(mask, before)


@given(masks(), radii)
def test_growing_and_shrinking_mirror_each_other(mask: np.ndarray, radius: float) -> None:
    grown, shrunk = edit.grow(mask, radius), edit.shrink(mask, radius)
    assert (grown >= mask).all() and (shrunk <= mask).all()
    assert np.allclose(shrunk, 1 - edit.grow(1 - mask, radius))
    opened, closed = edit.grow(shrunk, radius), edit.shrink(grown, radius)
    assert (opened <= mask + 1e-6).all() and (closed >= mask - 1e-6).all()
    assert np.allclose(edit.grow(edit.shrink(opened, radius), radius), opened)  # once opened, always opened


@given(masks(), st.sampled_from([1.0, 2.0, 3.5]))
def test_growing_is_the_largest_value_within_a_disc(mask: np.ndarray, radius: float) -> None:
    grown = edit.grow(mask, radius)
    ys, xs = np.mgrid[:H, :W]
    for y, x in ((0, 0), (7, 50), (H - 1, W - 1), (20, 30)):
        near = np.hypot(ys - y, xs - x) <= radius
        assert grown[y, x] == mask[near].max()


def test_a_disc_grows_to_a_larger_disc_and_a_soft_edge_stays_soft() -> None:
    assert np.abs(edit.grow(disc(6), 4) - disc(10)).sum() < 0.08 * disc(10).sum()
    ramp = np.clip((30 - np.arange(W)) / 8, 0, 1).astype(np.float32) * np.ones((H, 1), np.float32)
    assert np.allclose(edit.grow(ramp, 5)[:, 5:], ramp[:, :-5])


@given(masks(), masks())
def test_what_is_taken_away_and_what_is_shared_add_up(one: np.ndarray, other: np.ndarray) -> None:
    assert np.allclose(edit.subtract(one, other) + edit.intersect(one, other), one)
    assert np.allclose(edit.unite(one, other) - edit.intersect(one, other), np.abs(one - other), atol=1e-6)
    assert edit.subtract(one, one).max() == 0


@given(st.lists(masks(), min_size=1, max_size=4))
def test_those_in_front_take_what_they_want_and_nothing_is_given_twice(stack: list[np.ndarray]) -> None:
    kept = edit.in_front(stack)
    assert np.array_equal(kept[0], stack[0])
    assert np.sum(kept, 0).max() <= 1 + 1e-5
    for mask, wanted in zip(kept, stack, strict=True):
        assert (mask <= wanted + 1e-6).all() and mask.min() >= 0
    covered = np.maximum.reduce(stack)
    assert (np.sum(kept, 0) >= covered - 1e-5).all()  # what one of them covers stays covered


def test_in_front_of_nothing() -> None:
    assert edit.in_front([]) == []


def test_feathering_keeps_the_edge_where_it_was() -> None:
    half = np.zeros((H, W), np.float32)
    half[:, : W // 2] = 1
    soft = edit.feather(half, 6)
    assert 0.4 < soft[10, W // 2 - 1] < 0.6 + 0.1 and soft[10, W // 2] < 0.5
    assert soft[10, W // 2 - 12] > 0.99 and soft[10, W // 2 + 12] < 0.01
    assert np.array_equal(edit.feather(half, 0), half)


def test_holes_are_filled_with_their_rims_and_bays_are_not() -> None:
    ring = edit.feather(disc(16) - disc(6), 2)
    filled = edit.fill_holes(ring)
    assert filled[H // 2, W // 2] == 1 and filled[H // 2, W // 2 + 6] == 1  # the soft rim, too
    assert np.array_equal(filled[:, :10], ring[:, :10])
    bay = disc(16)
    bay[H // 2 - 2 : H // 2 + 2, W // 2 :] = 0
    assert np.array_equal(edit.fill_holes(bay), bay)
    assert np.array_equal(edit.fill_holes(ring, largest=0.001), ring)  # a hole larger than that is meant


@given(masks())
def test_filled_once_is_filled(mask: np.ndarray) -> None:
    filled = edit.fill_holes(mask)
    assert (filled >= mask).all()
    assert np.array_equal(edit.fill_holes(filled), filled)


def test_specks_go_with_their_soft_edges_and_large_parts_stay_as_they_are() -> None:
    soft = edit.feather(np.maximum(disc(9, (20, 14)), disc(2, (20, 44))), 2)
    kept = edit.drop_specks(soft, 40)
    assert kept[:, 38:].max() == 0
    assert np.array_equal(kept[:, :26], soft[:, :26])
    assert edit.drop_specks(soft, 10_000).max() == 0


def test_edges_move_to_those_of_the_photo() -> None:
    """The photo's edge is at 30, the mask's at 27; far from any edge nothing changes."""
    rng = np.random.default_rng(0)
    pixels = np.zeros((H, W, 3))
    pixels[:, :30], pixels[:, 30:] = (200, 120, 40), (40, 90, 160)
    photo = Image.fromarray((pixels + rng.normal(0, 2, pixels.shape)).clip(0, 255).astype(np.uint8))
    mask = np.zeros((H, W), np.float32)
    mask[:, :27] = 1
    snapped = edit.snap(mask, photo)
    assert ((snapped[:, 27:30] > 0.5).mean() > 0.95) and (snapped[:, 31:] < 0.5).all()
    assert np.array_equal(snapped[:, :10], mask[:, :10]) and np.array_equal(snapped[:, 45:], mask[:, 45:])


def test_large_photos_are_fitted_small_and_applied_large(monkeypatch: pytest.MonkeyPatch) -> None:
    photo = Image.fromarray(np.uint8(disc(12)[..., None] * [180, 60, 20]) + np.uint8(40))
    mask = disc(10)
    exact = edit.guided(mask[None], photo, 6)
    monkeypatch.setattr(edit, "COARSE", 28)
    coarse = edit.guided(mask[None], photo, 6)
    assert coarse.shape == exact.shape
    assert ((coarse > 0.5) == (exact > 0.5)).mean() > 0.97


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match=r"pip install 'mast\[segment\]'"):
        edit.grow(disc(5), 2)
