"""Names of files: whatever they hold they are shown as they are, and no output is ever an input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from tests.small_bench import make_bench, random_metrics

ODD = "x[/bold] [red]y:cat:.png"
REGION = ("photo.png", "-r", "left.png=a.png")


def test_markup_in_names_is_shown_as_it_is(stylize, run):
    for name in (ODD, f"out {ODD}"):
        Path(name).parent.mkdir()
    Path("left.png").rename(ODD)
    outcome = stylize("photo.png", "-r", f"{ODD}=a.png", "-r", f"{ODD}=b.png", "-o", f"out {ODD}")
    assert outcome.code == 0, outcome.err
    assert f"out {ODD}" in outcome.lines[-1]
    assert "masks overlap" in outcome.err
    assert f"out {ODD}: bit-equal" in run("replay", f"out {ODD}").err
    for arguments in (("replay", f"no {ODD}"), ("stylize", f"no {ODD}", "-r", "rest=a.png")):
        said = run(*arguments)
        assert said.code == 2 and f"no {ODD}: no such file" in said.err
    usage = run("stylize", *REGION, "--bogus[/bold]")
    assert usage.code == 2 and "--bogus[/bold]" in usage.err
    assert run("x[/bold]").code == 2


def test_letters_a_terminal_would_act_upon_are_written_out(run):
    outcome = run("stylize", "no\x1b]0;title\x07\u2028.png", "-r", "rest=a.png")
    assert outcome.code == 2 and "\x1b" not in outcome.err and "\x07" not in outcome.err
    assert "\\x1b]0;title\\x07" in outcome.err and len(outcome.lines) == 1


@pytest.mark.skipif(os.name != "posix", reason="names are text there")
def test_names_that_are_no_text(run, stylize, folder: Path, monkeypatch: pytest.MonkeyPatch):
    odd = os.fsdecode(b"caf\xe9")
    Path("photo.png").rename(f"{odd}.png")
    monkeypatch.setenv("MAST_CACHE", str(folder / odd))
    assert stylize(f"{odd}.png", "-r", "left.png=a.png", "-o", f"{odd}-out.png").code == 0
    listed = run("cache", "list")
    assert listed.code == 0 and "4 files" in listed.out
    assert stylize("gone.png", "-r", f"{odd}.png=a.png").code == 2
    for name in ("photos", "styles", "masks"):
        Path(name).mkdir()
    Path(f"{odd}.png").rename(f"photos/{odd}.png")
    Path("left.png").rename(f"masks/{odd}-left.png")
    for style in ("a.png", "b.png"):
        Path(style).rename(f"styles/{style}")
    given = ("--contents", "photos", "--styles", "styles", "--masks", "masks", "-n", "2")
    made = run("bench", "make", odd, *given)
    assert made.code in (0, 2), made  # made, or refused in words
    assert "Traceback" not in made.err and "UnicodeEncodeError" not in made.err
    assert "'utf-8' codec" not in made.err


def test_a_mask_and_a_style_may_have_equals_and_at_signs_in_their_names(stylize):
    Path("left.png").rename("a=b.png")
    Path("a.png").rename("s@0.5=t.png")
    assert stylize("photo.png", "-r", "a=b.png=s@0.5=t.png", "-o", "one.png").code == 0
    assert stylize("photo.png", "-r", r"a\=b.png=s\@0.5\=t.png@0.5", "-o", "two.png").code == 0
    assert Image.open("one.png").tobytes() != Image.open("two.png").tobytes()


@pytest.mark.parametrize("rest", ["rest=b.png", "=b.png", "b.png"])
def test_what_is_left_over_in_three_ways(stylize, rest: str):
    assert stylize(*REGION, "-r", rest, "-o", "out.png", "-q").code == 0
    assert stylize(*REGION, "-r", "right.png=b.png", "-o", "both.png", "-q").code == 0
    assert Image.open("out.png").tobytes() == Image.open("both.png").tobytes()


# ------------------------------------------------------------------------------------ outputs and inputs


def test_replay_writes_over_no_input_and_not_over_what_it_replays(stylize, refused):
    assert stylize(*REGION, "-o", "out.png", "-q").code == 0
    os.link("photo.png", "same.png")
    for name in ("photo.png", "left.png", "a.png", "out.png", "./out.png", "same.png"):
        said = refused("replay", "out.png", "-o", name, "--overwrite")
        assert f"{Path(name)}: this is one of the inputs" in said
    assert "out.png: this is one of the inputs" in refused(
        "replay", "out.json", "-o", "out.png", "--overwrite"
    )


def test_an_evaluation_writes_over_no_record(stylize, refused):
    assert stylize(*REGION, "-o", "out.png", "-q").code == 0
    assert "out.json: this is one of the inputs" in refused("eval", ".", "-o", "out.csv", "--overwrite")


def test_a_benchmark_writes_neither_over_its_pictures_nor_among_them(run, refused, folder, model, tmp_path):
    make_bench(folder / "data", 1, 1)
    said = refused("bench", "run", "data", "--out", ".", "-m", "data=mast")
    assert "data: holds pictures of the benchmark itself; give another --out" in said
    small = ("--model", model, "--steps", 3, "--size", 64, "-q")
    assert run("bench", "run", "data", "--out", "out", "-m", "mast", *small).code == 0
    inception, lpips = random_metrics(tmp_path / "weights")
    nets = ("--inception-weights", inception, "--lpips-weights", lpips)
    said = refused("bench", "report", "out", "--out", "data/style0", "--overwrite", *nets)
    assert "style0.png: this is one of the inputs" in said
