"""N regions without a click: they tile the photo exactly, follow what was drawn, and are never specks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from mast.job import InputError
from mast.regions import auto
from mast.regions.auto import SMALLEST, SPECK, divide
from mast.regions.partition import boundary_recall, covering
from mast.regions.segment import Proposal
from mast.regions.show import front

W, H = 160, 120
COLOURS = [(60, 110, 190), (210, 160, 60), (70, 140, 60), (190, 60, 70), (230, 230, 220)]


def scene(seed: int, objects: int, size: tuple[int, int] = (W, H)) -> tuple[Image.Image, np.ndarray]:
    """A photo of discs and boxes in flat colours with some noise, and the map that it was drawn from: objects
    from 1, the ground 0.
    """
    rng = np.random.default_rng(seed)
    width, height = size
    ys, xs = np.mgrid[:height, :width] / max(size)
    labels = np.zeros((height, width), int)
    for number in range(1, objects + 1):
        x, y = rng.uniform(0.15, 0.85) * width / max(size), rng.uniform(0.2, 0.8) * height / max(size)
        r = rng.uniform(0.12, 0.2)
        shape = np.hypot(xs - x, ys - y) < r if number % 2 else (abs(xs - x) < r) & (abs(ys - y) < 0.7 * r)
        labels[shape] = number
    pixels = np.array(COLOURS)[labels] + rng.normal(0, 6, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), labels


class Drawn:
    """Knows the map, and answers as segmenters do: roughly, twice, in parts, and with rubbish among it."""

    name = "drawn"

    def __init__(self, labels: np.ndarray):
        self.labels = labels

    def propose(self, photo: Image.Image) -> list[Proposal]:
        found = []
        for number in np.unique(self.labels):
            mask = Image.fromarray((self.labels == number).astype(np.float32))
            exact = np.asarray(mask.resize(photo.size, Image.Resampling.BILINEAR))
            rough = (ndimage.gaussian_filter(exact, 1.5) > 0.45).astype(np.float32)
            half = rough * (np.arange(photo.width) < photo.width / 2)
            found += [Proposal(rough, 0.95), Proposal(exact, 0.9), Proposal(half, 0.8)]
        speck = np.zeros((photo.height, photo.width), np.float32)
        speck[2:4, 2:5] = 1
        return [*found, Proposal(speck, 1.0), Proposal(np.ones_like(speck), 1.0), Proposal(speck * 0, 0.9)]


class Eye:
    """What is not the ground catches the eye."""

    name = "eye"

    def __init__(self, labels: np.ndarray):
        self.labels = labels

    def propose(self, photo: Image.Image) -> list[Proposal]:
        mask = Image.fromarray((self.labels > 0).astype(np.float32)).resize(photo.size)
        return [Proposal(np.asarray(mask), 1.0)]


def assert_tiles(masks: np.ndarray, n: int, size: tuple[int, int]) -> None:
    assert masks.shape == (n, size[1], size[0]) and masks.dtype == np.float32
    levels = (masks * 255).round()
    assert np.abs(masks * 255 - levels).max() < 1e-3 and (levels.sum(0) == 255).all()  # whole 8-bit levels
    assert np.abs(masks.sum(0) - 1).max() < 1e-6 and masks.min() >= 0


@pytest.mark.parametrize("seed", range(6))
def test_what_was_drawn_is_found(seed: int) -> None:
    photo, labels = scene(seed, 2)
    n = len(np.unique(labels))
    made = divide(photo, n, Drawn(labels), Eye(labels))
    found = front(made.regions)
    assert made.notes == []
    assert covering(found, labels) > 0.93
    assert boundary_recall(found, labels, 2) > 0.95
    assert (found[labels == 0] == n - 1).mean() > 0.95  # the ground is the background


@pytest.mark.parametrize("seed", range(4))
def test_colours_alone_find_large_flat_things(seed: int) -> None:
    photo, labels = scene(seed, 1)
    made = divide(photo, 2)
    assert made.notes == ["no objects could be told apart; the rest is divided by colour and place"]
    assert covering(front(made.regions), labels) > 0.8


@st.composite
def proposals(draw: st.DrawFn) -> list[Proposal]:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    found = []
    for _ in range(draw(st.integers(0, 9))):
        kind = rng.integers(4)
        mask = np.zeros((H, W), np.float32)
        if kind == 0:
            mask = ndimage.gaussian_filter(rng.random((H, W)), rng.uniform(1, 12)).astype(np.float32)
            mask = (mask > np.quantile(mask, rng.uniform(0.1, 0.98))).astype(np.float32)
        elif kind == 1:
            mask[rng.integers(H) :, : rng.integers(1, W)] = 1
        elif kind == 2:
            mask = rng.random((H, W)).astype(np.float32)
        else:
            y, x = rng.integers(2, H - 2), rng.integers(2, W - 2)
            mask[y - 2 : y + rng.integers(3, 60), x - 2 : x + rng.integers(3, 60)] = 1
        found.append(Proposal(mask, float(rng.random())))
    return found


@given(proposals(), st.integers(2, 6), st.integers(0, 3), st.booleans())
@settings(max_examples=15)
def test_whatever_is_proposed_the_regions_tile_the_photo(
    found: list[Proposal], n: int, seed: int, seen: bool
) -> None:
    photo, labels = scene(seed, 2)
    answers = Drawn(labels)
    answers.propose = lambda photo: found  # type: ignore[method-assign]
    made = divide(photo, n, answers, Eye(labels) if seen else None)
    masks = made.regions.masks
    assert_tiles(masks, n, photo.size)
    assert made.regions.names[-1] == "background" and len(set(made.regions.names)) == n
    hard = front(made.regions)
    for number in range(n):
        parts, count = ndimage.label(hard == number)
        sizes = np.sort(np.bincount(parts.ravel())[1:])
        assert count and sizes[-1] >= 0.25 * SPECK * hard.size  # it is there
    again = divide(photo, n, answers, Eye(labels) if seen else None)
    assert np.array_equal(again.regions.masks, masks) and again.notes == made.notes


@pytest.mark.parametrize(
    ("size", "n"), [((16, 16), 2), ((400, 16), 3), ((16, 300), 4), ((1300, 700), 3), ((64, 64), 16)]
)
def test_photos_of_any_size_and_shape(size: tuple[int, int], n: int) -> None:
    photo, labels = scene(1, 2, size)
    assert_tiles(divide(photo, n, Drawn(labels)).regions.masks, n, size)


@pytest.mark.parametrize("what", ["flat", "gradient", "noise"])
def test_a_photo_with_nothing_in_it_is_divided_all_the_same(what: str) -> None:
    pixels = np.full((H, W, 3), 128.0)
    if what == "gradient":
        pixels += np.linspace(-60, 60, H)[:, None, None]
    elif what == "noise":
        pixels += np.random.default_rng(0).normal(0, 40, pixels.shape)
    photo = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    rubbish = Drawn(np.zeros((H, W), int))
    speck, whole, none = rubbish.propose(photo)[-3:]
    rubbish.propose = lambda photo: [speck, whole, none]  # type: ignore[method-assign]
    made = divide(photo, 3, rubbish)
    assert_tiles(made.regions.masks, 3, photo.size)
    assert made.notes == ["no objects could be told apart; the rest is divided by colour and place"]
    assert min(made.regions.shares) > 0.15


def test_objects_come_from_large_to_small_and_a_speck_is_none() -> None:
    photo, labels = scene(4, 3)
    made = divide(photo, 4, Drawn(labels), Eye(labels))
    shares = made.regions.shares
    assert made.regions.names == ("object", "object-2", "object-3", "background")
    assert shares[:-1] == sorted(shares[:-1], reverse=True) and min(shares) > SMALLEST / 2


def test_what_is_missing_is_split_from_the_background() -> None:
    photo, labels = scene(2, 1)
    made = divide(photo, 4, Eye(labels))  # one object
    assert made.notes == ["1 object could be told apart; the rest is divided by colour and place"]
    found = front(made.regions)
    one = [number for number in range(4) if (found[labels == 1] == number).mean() > 0.9]
    assert len(one) == 1


def test_edges_are_soft_in_a_narrow_band_and_hard_elsewhere() -> None:
    photo, labels = scene(0, 1)
    masks = divide(photo, 2, Drawn(labels), Eye(labels)).regions.masks
    soft = (masks[0] > 0) & (masks[0] < 1)
    far = ndimage.distance_transform_edt(~(np.abs(np.diff(labels, axis=0, prepend=labels[:1])) > 0))
    assert 0 < soft.mean() < 0.15
    assert not soft[far > 0.1 * W].any()


def test_slivers_between_two_regions_go_to_their_neighbours() -> None:
    labels = np.full((H, W), 2)
    labels[:, :80], labels[:, 82:] = 0, 1
    labels[90:, 20:140] = 2  # where the third region really is
    tidied = auto.tidy(labels, 3)
    assert set(np.unique(tidied[:80])) == {0, 1} and (tidied[100:, 40:120] == 2).all()


@pytest.mark.parametrize("n", [-1, 0, 1, 17, 10**9])
def test_numbers_of_regions_that_cannot_be(n: int) -> None:
    with pytest.raises(InputError, match=f"-n {n}: give a number of regions from 2 to 16"):
        divide(Image.new("RGB", (32, 32)), n)


# ------------------------------------------------------------ the measures


def test_covering_and_recall_of_known_maps() -> None:
    truth = np.zeros((10, 10), int)
    truth[:, 5:] = 7
    assert covering(truth, truth) == 1 and boundary_recall(truth, truth, 0) == 1
    assert covering(np.ones((10, 10)), truth) == 0.5 and boundary_recall(np.ones((10, 10)), truth, 3) == 0
    moved = np.zeros((10, 10), int)
    moved[:, 6:] = 1
    assert covering(moved, truth) == pytest.approx(0.5 * 5 / 6 + 0.5 * 4 / 5)
    assert boundary_recall(moved, truth, 0) == 0 and boundary_recall(moved, truth, 1) == 1


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 5))
def test_covering_is_a_share_and_names_do_not_count(seed: int, one: int, other: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, one, (9, 7)), rng.integers(0, other, (9, 7))
    assert 0 < covering(a, b) <= 1
    assert covering(a, b) == pytest.approx(covering(10 - 3 * a, b * 100))
