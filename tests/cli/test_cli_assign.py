"""mast assign, and mast stylize without masks: what they say, write and refuse, and what may be missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mast.cli import assign as assigning
from mast.images import read_provenance
from mast.pipeline.jobfile import read_jobfile
from mast.regions import likeness

Run = Callable[..., Any]
COLOURS = ("--segmenter", "colours")
pytestmark = pytest.mark.usefixtures("warm_cache")


@pytest.fixture(autouse=True)
def two_sides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A photo that is dark and warm on the left, bright and cool on the right; dark.png and bright.png."""
    monkeypatch.setattr(likeness, "SIDE", 64)
    rng = np.random.default_rng(0)
    dark, bright = np.array((90, 50, 20)), np.array((190, 215, 240))
    for name, left, right in (("photo", dark, bright), ("dark", dark, dark), ("bright", bright, bright)):
        pixels = np.where(np.arange(96)[None, :, None] < 40, left, right) + rng.normal(0, 8, (64, 96, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(f"{name}.png")


def levels(*paths: str | Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(path)).astype(int) for path in paths])


# ------------------------------------------------------------ assign


def test_it_says_what_goes_where_and_how_sure_it_is(run: Run, folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    done = run("assign", "photo.png", "bright.png", "dark.png", *COLOURS)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["region", "share", "style", "why"]
    assert {(row[0], row[2]) for row in rows[1:]} == {("object", "dark"), ("background", "bright")}
    assert "how sure: clear" in done.err and "next best: object in bright" in done.err
    assert "nothing is written" in done.err and {path.name for path in folder.iterdir()} == before


def test_it_writes_masks_an_overlay_and_a_job_that_can_be_painted(
    run: Run, stylize: Run, folder: Path
) -> None:
    done = run("assign", "photo.png", "bright.png", "dark.png", *COLOURS, "-o", "parts", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert [region["style"] for region in report["regions"]] == ["dark.png", "bright.png"]
    assert report["verdict"] == "clear" and report["margin"] > 1 and report["unused"] == []
    assert report["next_best"] == ["bright.png", "dark.png"]
    assert sorted(path.name for path in (folder / "parts").iterdir()) == [
        "background.png", "map.png", "object.png", "overlay.png",
    ]  # fmt: skip
    assert (levels("parts/object.png", "parts/background.png").sum(0) == 255).all()
    told = read_jobfile("parts.toml")
    assert told.names == ("object", "background")
    assert [Path(str(region.style)).name for region in told.job.regions] == ["dark.png", "bright.png"]
    painted = stylize("parts.toml", "-o", "out.png")
    assert painted.code == 0, painted.err
    again = ("assign", "photo.png", "bright.png", "dark.png", *COLOURS, "-q")
    assert "exists already" in run(*again, "-o", "parts").err
    assert run(*again, "-o", "parts", "--overwrite").code == 0
    assert run(*again, "--job", "other.toml").code == 0 and (folder / "other.regions/object.png").is_file()


def test_more_and_fewer_styles_than_regions(run: Run, folder: Path) -> None:
    fewer = run(
        "assign", "photo.png", "a.png", "b.png", "dark.png", "bright.png", "-n", 2, *COLOURS, "--json"
    )
    report = json.loads(fewer.out)
    assert [region["style"] for region in report["regions"]] == ["dark.png", "bright.png"]
    assert sorted(report["unused"]) == ["a.png", "b.png"]
    more = json.loads(run("assign", "photo.png", "bright.png", "dark.png", "-n", 4, *COLOURS, "--json").out)
    assert {region["style"] for region in more["regions"]} == {"dark.png", "bright.png"}
    alone = run("assign", "photo.png", "dark.png", "-n", 2, *COLOURS)
    assert "how sure: there is only one way" in alone.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("photo.png", "dark.png"), "one style needs no regions"),
        (("photo.png", "dark.png", "gone.png"), "gone.png: no such file"),
        (("gone.png", "dark.png", "bright.png"), "gone.png: no such file"),
        (("photo.png", "dark.png", "-n", 1), "-n 1: give a number of regions from 2 to 16"),
        (("photo.png", "dark.png", "-n", 17), "-n 17: give a number of regions from 2 to 16"),
        (("photo.png", *["dark.png"] * 17), "17 styles, and no more than 16 regions are found"),
        (("photo.png", "dark.png", "bright.png", "-o", "a.png"), "a.png: this is no folder"),
        (("photo.png", "dark.png", "bright.png", "-o", "no/where"), "no: no such folder"),
        (("photo.png", "dark.png", "bright.png", "--job", "job.txt"), "must end in .toml"),
        (("photo.png", "dark.png", "bright.png", "--segmenter", "best"), "best: no segmenter of this name"),
    ],
)
def test_what_is_refused(refused: Callable[..., str], arguments: tuple[Any, ...], words: str) -> None:
    assert words in refused("assign", *arguments)


# ------------------------------------------------------------ stylize


def test_two_paintings_and_no_mask_make_a_picture_that_can_be_made_again(
    stylize: Run, run: Run, folder: Path
) -> None:
    done = stylize("photo.png", "bright.png", "dark.png", "-o", "out.png", *COLOURS)
    assert done.code == 0, done.err
    said = done.err.splitlines()
    first = next(
        i for i, line in enumerate(said) if line.startswith("no masks: finding 2 regions in photo.png")
    )
    assert any(line.split()[::2][:2] == ["object", "dark"] for line in said[first:])
    assert any("look at the regions: out.regions.png" in line for line in said)
    assert Image.open("out.regions.png").width > 96
    record = read_provenance(folder / "out.png")
    assert [Path(region["mask"]["path"]).name for region in record["regions"]] == [
        "object.png",
        "background.png",
    ]
    assert [Path(region["style"]["path"]).name for region in record["regions"]] == ["dark.png", "bright.png"]
    assert (levels("out.regions/object.png", "out.regions/background.png").sum(0) == 255).all()
    assert "bit-equal" in run("replay", "out.png").err
    swapped = stylize("photo.png", "dark.png", "bright.png", "-o", "swapped.png", *COLOURS, "--json")
    assert (levels("out.png", "swapped.png")[0] == levels("out.png", "swapped.png")[1]).all()
    assert json.loads(swapped.out)["assigned"]["verdict"] == "clear"


def test_regions_that_were_edited_are_used_and_nothing_is_overwritten(stylize: Run, folder: Path) -> None:
    call = ("photo.png", "bright.png", "dark.png", "-o", "out.png", *COLOURS)
    assert stylize(*call).code == 0
    assert stylize(*call).code == 2
    (folder / "out.png").unlink()
    (folder / "out.json").unlink()
    left = np.zeros((64, 96), np.uint8)
    left[:, :30] = 255
    for name, mask in (("object", left), ("background", 255 - left)):
        Image.fromarray(mask).save(f"out.regions/{name}.png")
    assert stylize(*call).code == 0
    assert (levels("out.regions/object.png")[0] == left).all()
    (folder / "mine.regions.png").write_bytes(b"my own")
    refused = stylize("photo.png", "bright.png", "dark.png", "-o", "mine.png", *COLOURS)
    assert refused.code == 2 and "mine.regions.png: exists already" in refused.err
    assert (folder / "mine.regions.png").read_bytes() == b"my own"


def test_one_painting_is_for_the_whole_photo(stylize: Run, folder: Path) -> None:
    done = stylize("photo.png", "dark.png", "-o", "out.png")
    assert done.code == 0, done.err
    (region,) = read_provenance(folder / "out.png")["regions"]
    assert region["mask"] is None and region["coverage"] == 1
    assert not (folder / "out.regions").exists() and not (folder / "out.regions.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("photo.png", "dark.png", "gone.png"), "gone.png: no such file"),
        (("photo.png", "dark.png", "bright.png", "-r", "left.png=a.png"), "either after the photo"),
        (("photo.png", *["dark.png"] * 17), "16"),
    ],
)
def test_what_stylize_refuses(refused: Callable[..., str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("stylize", *arguments, "-o", "out.png")


# ------------------------------------------------------------ what may be missing


def test_without_weights_and_network_it_is_done_by_colour_and_said(
    run: Run, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAST_CACHE", str(own_cache))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    done = run("assign", "photo.png", "bright.png", "dark.png", "--json")
    assert done.code == 0, done.err
    assert "38.0 MB to download" in done.err, "said before"
    report = json.loads(done.out)
    assert any(note.startswith("no segmenter: mobile-sam: could not be fetched") for note in report["notes"])
    assert [region["style"] for region in report["regions"]] == ["dark.png", "bright.png"]
    assert run("assign", "photo.png", "a.png", "b.png", "--segmenter", "mobile-sam").code == 2


@pytest.mark.parametrize("missing", ["scipy", "onnxruntime"])
def test_without_the_extra_it_is_done_by_colour_and_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert assigning.AnyFinder(None, True).name == "colours"
    done = run("assign", "photo.png", "bright.png", "dark.png")
    assert done.code == 0, done.err
    assert "no segmenter is installed; pip install 'mast[segment]'" in done.err
    assert "download" not in done.err
