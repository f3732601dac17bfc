"""Regions as text: MASK=STYLE@0.7, =STYLE, N=FILE, and colours of a map."""

from __future__ import annotations

import re
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError, Region
from mast.regions.labels import colour_shares
from mast.regions.specs import parse_map, parse_region, with_style_masks


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "mast-cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("sky.png=waves.png", Region("waves.png", "sky.png")),
        ("=waves.png", Region("waves.png", None)),
        ("sky.png=waves.png@0.7", Region("waves.png", "sky.png", 0.7)),
        ("=waves.png@1", Region("waves.png", None, 1.0)),
        ("my@mask.png=waves.png", Region("waves.png", "my@mask.png")),
        ("a b.png=c d.png@.5", Region("c d.png", "a b.png", 0.5)),
        ("map.png#ff0000=waves.png", Region("waves.png", "map.png#ff0000")),
    ],
)
def test_a_region_is_read(text: str, region: Region):
    assert parse_region(text) == region


def test_an_at_sign_in_a_file_that_exists_is_part_of_its_name():
    Path("waves@2x.png").write_bytes(b"")
    assert parse_region("=waves@2x.png") == Region("waves@2x.png")
    assert parse_region("=waves@2x.png@0.5") == Region("waves@2x.png", None, 0.5)
    Path("waves@0.5").write_bytes(b"")
    assert parse_region("=waves@0.5") == Region("waves@0.5")


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("rest=waves.png", Region("waves.png")),
        ("rest=waves.png@0.4", Region("waves.png", None, 0.4)),
        ("waves.png", Region("waves.png")),
        ("waves.png@0.4", Region("waves.png", None, 0.4)),
        ("./rest=waves.png", Region("waves.png", "./rest")),
    ],
)
def test_what_is_left_over_needs_no_empty_name(text: str, region: Region):
    assert parse_region(text) == region


def test_of_several_readings_the_one_whose_files_exist_is_meant():
    for name in ("a=b.png", "s=t.png", "s.png", "waves@2x.png"):
        Path(name).write_bytes(b"")
    assert parse_region("a=b.png=s.png") == Region("s.png", "a=b.png")
    assert parse_region("a=b.png=s.png@0.5") == Region("s.png", "a=b.png", 0.5)
    assert parse_region("a=b.png=s=t.png") == Region("s=t.png", "a=b.png")
    assert parse_region("rest=s=t.png") == parse_region("=s=t.png") == Region("s=t.png")
    assert parse_region("s=t.png") == Region("s=t.png"), "a style alone"
    assert parse_region("s=t.png@0.3") == Region("s=t.png", None, 0.3)
    assert parse_region("a=b.png=waves@2x.png") == Region("waves@2x.png", "a=b.png")
    Path("s").write_bytes(b"")
    Path("t.png").write_bytes(b"")
    assert parse_region("s=t.png") == Region("t.png", "s"), "mask and style, where both readings exist"


@pytest.mark.parametrize(
    ("text", "region"),
    [
        (r"a\=b.png=s.png", Region("s.png", "a=b.png")),
        (r"a\=b\=c.png=s\=t.png@.5", Region("s=t.png", "a=b=c.png", 0.5)),
        (r"m.png=s\@0.5", Region("s@0.5", "m.png")),
        (r"m.png=s\@0.5@0.25", Region("s@0.5", "m.png", 0.25)),
        (r"s\=t.png", Region("s=t.png")),
        (r"C:\masks\sky.png=C:\art\waves.png", Region(r"C:\art\waves.png", r"C:\masks\sky.png")),
    ],
)
def test_a_backslash_makes_a_sign_part_of_a_name(text: str, region: Region):
    assert parse_region(text) == region


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_any_two_names_can_be_given(mask: str, style: str):
    hypothesis.assume("\0" not in mask + style and mask != "rest" and not (mask + style).count("\\"))
    escaped = [re.sub("([=@])", r"\\\1", name) for name in (mask, style)]
    assert parse_region("=".join(escaped)) == Region(style, mask)


@pytest.mark.parametrize("text", ["sky.png=", "rest=", "=", ""])
def test_what_is_not_a_region_is_refused_with_an_example(text: str):
    with pytest.raises(InputError, match=r"this is not a region; write MASK=STYLE"):
        parse_region(text)


@pytest.mark.parametrize("number", ["0", "1.01", "-1", "nan", "inf", "5"])
def test_a_strength_out_of_range_is_refused_with_the_region_it_is_in(number: str):
    with pytest.raises(InputError, match=rf"^-r m=s@{number}: the strength is {number}; it must be above 0"):
        parse_region(f"m=s@{number}")


@pytest.mark.parametrize("number", ["x", "", "0,5", "2x.png"])
def test_a_strength_that_is_no_number_is_refused(number: str):
    with pytest.raises(InputError, match=r"^-r m=s@.* after @ is not a number; write the strength as in"):
        parse_region(f"m=s@{number}")


def test_style_masks_go_to_their_regions():
    regions = with_style_masks([Region("a"), Region("b")], ["2=part.png"])
    assert regions == [Region("a"), Region("b", style_mask="part.png")]


@pytest.mark.parametrize("text", ["part.png", "0=part.png", "3=part.png", "x=part.png", "²=part.png", "1="])
def test_a_style_mask_of_no_region_is_refused(text: str):
    with pytest.raises(InputError, match=f"--style-mask {text}: write N=FILE with N from 1 to 2"):
        with_style_masks([Region("a"), Region("b")], [text])


# -------------------------------------------------------------------------------- maps


@pytest.fixture
def colour_map(in_folder: Path) -> Path:
    """Half red, a quarter green, the rest black."""
    pixels = np.zeros((32, 64, 3), np.uint8)
    pixels[:, :32], pixels[:, 32:48] = (255, 0, 0), (0, 255, 0)
    Image.fromarray(pixels).save("map.png")
    return Path("map.png")


def test_the_shares_of_wanted_and_of_other_colours(colour_map: Path):
    shares, others = colour_shares(colour_map, [(250, 10, 0), (0, 0, 255)])
    assert shares == [0.5, 0.0]
    assert others == [("#00ff00", 0.25), ("#000000", 0.25)] or others == [
        ("#000000", 0.25),
        ("#00ff00", 0.25),
    ]


def test_a_map_gives_regions_and_lists_what_nobody_claimed(colour_map: Path):
    regions, notes = parse_map(colour_map, ["#FF0000=a.png@0.5", "00ff00=b.png"])
    assert regions == [Region("a.png", "map.png#ff0000", 0.5), Region("b.png", "map.png#00ff00")]
    assert notes == ["map.png: #000000 (25.0%) has no style and stays as it is"]
    _, notes = parse_map(colour_map, ["#FF0000=a.png", "00ff00=b.png"], rest=True)
    assert notes == ["map.png: #000000 (25.0%) has no style and goes to what is left over"]


def test_a_photo_taken_for_a_map_does_not_fill_the_screen(in_folder: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    pixels[:2] = (255, 0, 0)
    Image.fromarray(pixels).save("photo.png")
    _, notes = parse_map(Path("photo.png"), ["#ff0000=a.png"])
    assert len(notes) == 9 and "more colours" in notes[-1]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["#ff0000"], "write '#RRGGBB=STYLE'"),
        (["#ff0000="], "write '#RRGGBB=STYLE'"),
        (["red=a.png"], "'red' is not a colour; write it as '#RRGGBB'"),
        (["#ff00=a.png"], "'#ff00' is not a colour"),
        (["=a.png"], "'' is not a colour"),
        (["#ff0000=a.png", "#FF0000=b.png"], "is given twice"),
        (["#ff0000=a.png@2"], "-s #ff0000=a.png@2: the strength is 2"),
        (
            ["#ff0000=a.png", "#0000ff=b.png"],
            r"map.png: no pixel has the colour #0000ff; .*#00ff00 \(25.0%\)",
        ),
        (["#ff0000=a", "#00ff00=b", "#000000=c", "#0000ff=d"], "drop it, every pixel has a style"),
    ],
)
def test_colours_that_cannot_be_used(colour_map: Path, texts: list[str], says: str):
    with pytest.raises(InputError, match=says):
        parse_map(colour_map, texts)


def test_a_map_that_is_not_there(in_folder: Path):
    with pytest.raises(InputError, match=r"gone\.png: no such file; give the path of the map"):
        parse_map(Path("gone.png"), ["#ff0000=a.png"])
