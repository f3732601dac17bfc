"""Which style goes where: what is alike, the same in any order and every time, and odd pictures."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from PIL import Image

from mast.backbone.backbone import Backbone
from mast.job import InputError
from mast.regions import likeness
from mast.regions.assign import CLEAR, TOSS_UP, Assignment, assign
from mast.regions.auto import divide
from mast.regions.coarse import divide_coarsely
from mast.regions.likeness import USUAL, compare, see
from mast.regions.partition import NamedMasks
from tests.regions.test_auto import assert_tiles
from tests.tiny import picture

W, H = 96, 64


@pytest.fixture(autouse=True)
def compared_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As large as these pictures are, and not more."""
    monkeypatch.setattr(likeness, "SIDE", 128)


def halves() -> NamedMasks:
    """Left and right."""
    left = np.zeros((H, W), np.float32)
    left[:, : W // 2] = 1
    return NamedMasks(("left", "right"), np.stack([left, 1 - left]))


def flat(
    light: float, colour: tuple[float, float, float] = (1, 1, 1), noise: float = 0, seed: int = 0
) -> np.ndarray:
    """(H, W, 3): one colour, and fine texture over it."""
    rng = np.random.default_rng(seed)
    return light * np.array(colour) * np.ones((H, W, 3)) + rng.normal(0, noise, (H, W, 1))


def image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray((255 * pixels).clip(0, 255).round().astype(np.uint8))


def beside(left: np.ndarray, right: np.ndarray) -> Image.Image:
    return image(np.concatenate([left[:, : W // 2], right[:, W // 2 :]], 1))


WARM, COOL = (1.0, 0.7, 0.4), (0.4, 0.7, 1.0)
OPPOSITES = {
    "light": (flat(0.2), flat(0.8), ("darker", "brighter")),
    "colour": (flat(0.6, WARM), flat(0.6, COOL), ("warmer", "cooler")),
    "texture": (flat(0.5, noise=0.002), flat(0.5, noise=0.15), ("smoother", "busier")),
}


@pytest.mark.parametrize("what", OPPOSITES)
@pytest.mark.parametrize("swapped", [False, True])
def test_like_goes_to_like_and_the_reason_is_said(preview: Backbone, what: str, swapped: bool) -> None:
    one, other, words = OPPOSITES[what]
    styles = [image(one[::-1]), image(other[::-1])]
    found = assign(beside(one, other), halves(), styles[::-1] if swapped else styles, preview)
    assert found.styles == ((1, 0) if swapped else (0, 1))
    assert found.margin is not None and found.margin > TOSS_UP and found.verdict in ("clear", "likely")
    assert found.other == found.styles[::-1] and found.unused == ()
    told = " ".join(found.reasons)
    assert any(word in told for word in words), found.reasons


def test_a_regions_outline_is_no_texture(tiny_backbone: Backbone) -> None:
    """A calm half beside a very different one is as calm as if it were alone."""
    calm = flat(0.2, noise=0.01)
    left = torch.from_numpy(halves().masks[0])
    alone, beside_white = (
        see(one, tiny_backbone).look(left) for one in (image(calm), beside(calm, flat(1.0)))
    )
    assert torch.allclose(alone["texture"], beside_white["texture"], atol=0.15)
    assert torch.allclose(alone["light"], beside_white["light"], atol=0.01)


def outcome(found: Assignment, order: tuple[int, ...]) -> tuple[object, ...]:
    """With styles by the number they have in another order."""
    other = None if found.other is None else tuple(order[j] for j in found.other)
    return tuple(order[j] for j in found.styles), other, found.margin, sorted(order[j] for j in found.unused)


@pytest.mark.parametrize("count", [2, 3])
def test_the_order_of_the_styles_does_not_matter_and_twice_is_the_same(
    tiny_backbone: Backbone, count: int
) -> None:
    photo = picture(W, H, 1)
    styles = [picture(70 + 10 * i, 64, 20 + i) for i in range(count)]
    found = [
        outcome(assign(photo, halves(), [styles[j] for j in order], tiny_backbone), order)
        for order in permutations(range(count))
    ]
    assert all(one == found[0] for one in found)
    assert outcome(assign(photo, halves(), styles, tiny_backbone), tuple(range(count))) == found[0]


def test_more_styles_than_regions_and_fewer(tiny_backbone: Backbone) -> None:
    photo = picture(W, H, 1)
    styles = [picture(64, 64, 30 + i) for i in range(4)]
    found = assign(photo, halves(), styles, tiny_backbone)
    assert len(set(found.styles)) == 2 and sorted({*found.styles, *found.unused}) == [0, 1, 2, 3]
    divided = divide(photo, 5).regions
    found = assign(photo, divided, styles[:2], tiny_backbone)
    assert len(found.styles) == len(found.reasons) == 5 and set(found.styles) == {0, 1}
    alone = assign(photo, divided, styles[:1], tiny_backbone)
    assert alone.styles == (0,) * 5 and alone.margin is None and alone.verdict == "there is only one way"


def test_the_same_style_twice_is_one_way(tiny_backbone: Backbone) -> None:
    photo, style = picture(W, H, 1), picture(64, 64, 2)
    found = assign(photo, halves(), [style, style.copy()], tiny_backbone)
    assert sorted(found.styles) == [0, 1] and found.margin is None and found.other is None
    third = assign(photo, halves(), [style, style.copy(), picture(64, 64, 3)], tiny_backbone)
    assert third.margin is not None and third.other is not None
    assert [j == 2 for j in third.other] != [j == 2 for j in third.styles]


def test_the_photo_itself_suits_it_best(preview: Backbone) -> None:
    photo = picture(W, H, 1)
    whole = torch.ones(1, H, W)
    found = compare(see(photo, preview), whole, [see(photo, preview), see(picture(W, H, 5), preview)])
    for name in USUAL:
        assert found.unlike[name][0, 0] == pytest.approx(0, abs=1e-3), name
    assert found.costs[0, 1] > found.costs[0, 0]


@pytest.mark.parametrize(
    ("what", "size", "count"),
    [("one colour", (96, 64), 2), ("sky", (120, 90), 9), ("tiny", (40, 40), 9), ("line", (300, 16), 2)],
)
def test_photos_with_nothing_in_them(
    tiny_backbone: Backbone, monkeypatch: pytest.MonkeyPatch, what: str, size: tuple[int, int], count: int
) -> None:
    monkeypatch.setattr(likeness, "SIDE", 64)
    pixels = np.full((size[1], size[0], 3), 0.5)
    if what == "sky":
        pixels = pixels * np.linspace(0.6, 1.4, size[1])[:, None, None]
    photo = image(pixels)
    styles = [picture(32, 32, 40 + i) for i in range(count)]
    for made in (divide_coarsely(photo, count), divide(photo, count)):
        assert_tiles(made.regions.masks, count, size)
    found = assign(photo, made.regions, styles, tiny_backbone)
    assert sorted(found.styles) == list(range(count))
    assert found.margin is not None and 0 <= found.margin < 100


def test_a_region_without_a_pixel_is_refused_by_its_name(tiny_backbone: Backbone) -> None:
    empty = NamedMasks(("all", "none"), np.stack([np.ones((H, W)), np.zeros((H, W))]).astype(np.float32))
    with pytest.raises(InputError, match="none: the mask is"):
        assign(picture(W, H, 1), empty, [picture(32, 32, 2), picture(32, 32, 3)], tiny_backbone)


def test_words_for_every_margin() -> None:
    like = {"regions": halves(), "styles": (0, 1), "reasons": ("", ""), "other": (1, 0), "unused": ()}
    words = [Assignment(margin=m, **like).verdict for m in (0.0, TOSS_UP, CLEAR, 50.0, None)]  # type: ignore[arg-type]
    assert words == ["a toss-up", "likely", "clear", "clear", "there is only one way"]


# ------------------------------------------------------------ without scipy


def test_a_coarse_division_follows_large_flat_things_and_is_the_same_every_time() -> None:
    photo = beside(flat(0.3, WARM), flat(0.8, COOL))
    made = divide_coarsely(photo, 2)
    assert_tiles(made.regions.masks, 2, photo.size)
    left = made.regions.masks[:, :, : W // 2 - 4].mean((1, 2))
    assert left.max() > 0.99 and made.regions.names == ("object", "background")
    assert np.array_equal(divide_coarsely(photo, 2).regions.masks, made.regions.masks)
