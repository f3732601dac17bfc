"""Regions for the eye: colours everybody can tell apart, a legend that fits, and what would vanish."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageColor

from mast.job import InputError
from mast.regions.partition import NamedMasks
from mast.regions.show import SAFE, colour_map, file_names, front, palette, picture, save_folder, vanishing
from tests.tiny import picture as photo_of

# Viénot et al. 1999: what people without red or green cones see, in linear RGB.
PROTAN = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
DEUTAN = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])


def halves(width: int = 96, height: int = 64) -> NamedMasks:
    left = np.zeros((height, width), np.float32)
    left[:, : width // 2] = 1
    return NamedMasks(("left", "right"), np.stack([left, 1 - left]))


def seen(colours: list[str], cones: np.ndarray | None) -> np.ndarray:
    """Colours as somebody sees them, in sRGB levels from 0 to 255."""
    linear = (np.array([ImageColor.getrgb(c) for c in colours]) / 255) ** 2.2
    return 255 * np.clip(linear @ cones.T if cones is not None else linear, 0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("cones", [None, PROTAN, DEUTAN], ids=["all cones", "no red", "no green"])
def test_colours_are_told_apart_with_any_cones(cones: np.ndarray | None) -> None:
    for one, other in combinations(seen(palette(len(SAFE)), cones), 2):
        assert np.abs(one - other).max() > 24
    with pytest.raises(AssertionError):  # red and green of the same lightness are not
        for one, other in combinations(seen(["#b05030", "#727230"], PROTAN), 2):
            assert np.abs(one - other).max() > 24


def test_twice_as_many_colours_as_safe_ones_are_all_different() -> None:
    assert len(set(palette(16))) == 16 and palette(18)[16:] == palette(2)


def test_the_picture_has_the_photo_and_a_legend_below() -> None:
    photo, regions = photo_of(96, 64, 1), halves()
    made = picture(photo, regions)
    assert made.width == 96 and made.height > 64 + 14
    left, right = np.asarray(made)[10:50, 5:40].mean((0, 1)), np.asarray(made)[10:50, 60:90].mean((0, 1))
    assert left[0] > left[2] and right[2] > right[0]  # orange and blue
    assert (np.asarray(made)[:64, 48] == 255).all()  # the line between them
    many = NamedMasks(tuple(f"a long name {i}" for i in range(9)), np.repeat(regions.masks, 5, 0)[:9])
    taller = picture(photo, many)
    assert taller.width == 96 and taller.height > made.height + 100  # a line each


def test_what_no_region_covers_is_black_in_the_map() -> None:
    regions = NamedMasks(("left",), halves().masks[:1])
    pixels = np.asarray(colour_map(regions))
    assert (pixels[:, 50:] == 0).all() and (pixels[:, :40] == ImageColor.getrgb(SAFE[0])).all()
    assert (front(regions)[:, 50:] == 1).all()


def test_small_regions_vanish_on_coarse_grids_and_are_named() -> None:
    masks = np.zeros((3, 128, 128), np.float32)
    masks[0] = 1
    masks[1, 30:32, 40:41], masks[2, 60:70, 60:70] = 1, 1
    regions = NamedMasks(("all", "dot", "spot"), masks)
    assert vanishing(regions, [(8, 8), (32, 32), (64, 64)]) == {"dot": [(8, 8)]}
    assert vanishing(regions, [(2, 2)]) == {"dot": [(2, 2)], "spot": [(2, 2)]}
    assert vanishing(regions, []) == {}


@given(st.lists(st.text(max_size=300), min_size=1, max_size=6))
def test_any_names_become_files_of_their_own(names: list[str]) -> None:
    files = file_names(names)
    assert len({file.casefold() for file in files}) == len(names)
    for file in files:
        assert file and "/" not in file and "\0" not in file and file not in (".", "..", "map", "overlay")
        assert len(f"{file}.png".encode()) <= 255 and not file.startswith(("-", "."))


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo = photo_of(96, 64, 1)
    save_folder(tmp_path / "out", photo, halves())
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(before) == ["left.png", "map.png", "overlay.png", "right.png"]
    levels = [np.asarray(Image.open(tmp_path / "out" / f"{name}.png")) for name in ("left", "right")]
    assert (levels[0].astype(int) + levels[1] == 255).all() and levels[0].dtype == np.uint8

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(InputError, match="No space left"):
        save_folder(tmp_path / "out", photo, NamedMasks(("a", "b"), halves().masks))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
