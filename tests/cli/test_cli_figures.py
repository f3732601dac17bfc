"""mast figure on a tiny real model: a labelled sheet and how each of its pictures was made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

JOB = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png")


@pytest.fixture
def figure(run, model: Path, warm_cache):
    return lambda what, *rest: run("figure", what, *rest, "--model", model, "--steps", 3, "--height", 64)


def made(name: str) -> list[dict]:
    Image.open(f"{name}.png").verify()
    return json.loads(Path(f"{name}.json").read_text())["pictures"]


def test_progressive(figure, folder: Path):
    outcome = figure("progressive", *JOB, "--size", 64, "--pictures", "-o", "out.png", "-q")
    assert (outcome.code, outcome.out.strip(), outcome.err) == (0, "out.png", "")
    pictures = made("out")
    assert [len(one["regions"]) for one in pictures] == [1, 2]
    assert [one["regions"][0]["coverage"] for one in pictures] == [0.5, 0.5]
    first, second = (Image.open(f"out-{i}.png") for i in (1, 2))
    assert first.size == second.size == (96, 64) and first.tobytes() != second.tobytes()
    assert not list(folder.glob(".out*"))


def test_backgrounds_ablation_and_sizes(figure):
    assert figure("backgrounds", *JOB, "-b", "a.png", "-b", "b.png", "--size", 64, "-q").code == 0
    assert [Path(one["regions"][1]["style"]["path"]).name for one in made("backgrounds")] == [
        "a.png",
        "b.png",
    ]
    assert figure("ablation", *JOB, "--size", 64, "-q").code == 0
    switches = [[one["method"][name] for name in ("lama", "sts", "ddi")] for one in made("ablation")]
    assert switches == [[False] * 3, [True, False, False], [True, True, False], [True] * 3]
    assert figure("sizes", *JOB, "--sizes", "64,128", "--aspects", "1:1", "-q").code == 0
    assert [one["size"] for one in made("sizes")] == [[64, 64], [128, 128]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("progressive",), "one of them"),
        (("progressive", *JOB, "-o", "photo.png"), "photo.png"),
        (("progressive", *JOB, "-o", "a.png", "--overwrite"), "one of the inputs"),
        (("progressive", *JOB, "-o", "sheet.jpg"), "must end in .png"),
        (("backgrounds", *JOB), "no background given"),
        (("backgrounds", *JOB, "-b", "gone.png"), "gone.png: no such file"),
        (("backgrounds", *JOB, "-b", "left.png", "-o", "left.png", "--overwrite"), "one of the inputs"),
        (("backgrounds", "--examples", "cat-two,coffee-two", "-b", "a.png"), "one photo"),
        (("sizes", *JOB, "--aspects", "16x9"), "--aspects 16x9"),
        (("sizes", *JOB, "--sizes", "big"), "--sizes big"),
        (("sizes", *JOB, "--sizes", "10"), "size is 10"),
        (("sizes", *JOB, "--size", "64"), "--sizes"),
        (("ablation", "photo.png", "-r", "left.png=a.png@2"), "strength"),
    ],
)
def test_bad_input_is_refused_before_any_work(refused, arguments, said: str):
    assert said in refused("figure", *arguments)


def test_nothing_is_written_over_unasked(figure, refused):
    Path("out-2.png").write_bytes(b"mine")
    assert "out-2.png: exists already" in refused(
        "figure", "progressive", *JOB, "--pictures", "-o", "out.png"
    )
    assert Path("out-2.png").read_bytes() == b"mine"
