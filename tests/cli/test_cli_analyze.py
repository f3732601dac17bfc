"""mast analyze on a tiny real model: numbers, tables and figures are there, and bad input is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("matplotlib")

JOB = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png")


@pytest.fixture
def analyze(run, model: Path, warm_cache):
    """Three steps on the narrow model."""
    return lambda what, *rest: run("analyze", what, *rest, "--model", model, "--steps", 3, "--size", 64)


def read(name: str) -> dict:
    """The JSON, when table and picture are there as well."""
    assert Path(f"{name}.md").read_text().startswith("# ")
    Image.open(f"{name}.png").verify()
    return json.loads(Path(f"{name}.json").read_text())


def test_allocation_realises_the_targets_and_names_the_paper(analyze, model: Path):
    outcome = analyze("allocation", *JOB, "--shared-run", "-o", "out.json")
    assert outcome.code == 0, outcome
    assert "Shared Attn." in outcome.out and "+ LAMA" in outcome.out and "Target" in outcome.out
    data = read("out")
    lama = data["stages"]["lama"]
    assert lama["by_n"]["2"]["style"] == pytest.approx(0.9, abs=1e-5)
    assert lama["by_n"]["2"]["furthest_from_target"] < 1e-5
    assert len(lama["by_layer_and_step"]) == 6 * 3 and "shared-run" in data["stages"]
    assert data["model"]["name"] == str(model) and data["settings"]["steps"] == 3
    text = Path("out.md").read_text()
    assert "paper, SD 1.4" in text and str(model) in text and "own run" in text


def test_entropy_and_sts(analyze):
    assert analyze("entropy", *JOB, "-q").code == 0
    found = read("entropy")
    assert set(found["by_head"]) == {"content", "lama", "sts", "tau"}
    assert found["mean"]["sts"] <= found["mean"]["lama"] + 1e-6  # tau is never below 1
    outcome = analyze("sts", *JOB, "--tau", 1, "-q")
    assert outcome.code == 0 and outcome.err == ""
    assert read("sts")["by_n"]["2"]["d_mass"] < 1e-6


def test_calibrate_writes_what_tau_and_a_models_defaults_take(analyze, run, model: Path):
    outcome = analyze("calibrate", *JOB, "--write-defaults")
    try:
        assert outcome.code == 0, outcome
        found = read("calibrate")
        rows = list(csv.DictReader(Path("calibrate.csv").read_text().splitlines()))
        assert len(rows) == found["observations"] and set(found["r2"]) == {"1", "2", "3", "4"}
        line = next(word for word in outcome.err.split() if word.count("/") == 2 and word[-1].isdigit())
        assert [float(part) for part in line.split("/")] == found["tau"]
        assert json.loads((model / "defaults.json").read_text())["mast"]["tau"] == found["tau"]
        again = ("--model", model, "--steps", 3, "--size", 64, "-q", "-o", "painted.png")
        assert run("stylize", *JOB, f"--tau={line}", *again).code == 0
    finally:
        (model / "defaults.json").unlink(missing_ok=True)


def test_maps_and_the_filter(analyze, run):
    assert analyze("maps", *JOB, "--layers", "2,6", "--shown", 1, "-q").code == 0
    assert {row["layer"][:11] for row in read("maps")["maps"]} == {"up_blocks.2", "up_blocks.3"}
    outcome = run("analyze", "filter", "--r", "0.3,0.9", "-q")
    assert outcome.code == 0 and "38.36%" in outcome.out
    assert [row["r"] for row in read("filter")["transmission"]] == [0.3, 0.9]


def test_a_manifest_and_its_limit(analyze, folder: Path):
    from mast.bench.data.manifest import BenchRegion, BenchSample, File, Header, Manifest, write
    from mast.files import sha256

    file = lambda name: File(folder / name, sha256(folder / name))
    regions = (
        BenchRegion("l", file("left.png"), file("a.png")),
        BenchRegion("r", file("right.png"), file("b.png")),
    )
    samples = tuple(BenchSample(f"n2-t00{i}-x", 2, i, file("photo.png"), regions) for i in range(3))
    write(Manifest(folder / "manifest.jsonl", Header(0, (2,), 1, 2), samples))
    assert analyze("sts", "--manifest", "manifest.jsonl", "--limit", 2, "-q").code == 0
    assert read("sts")["pictures"] == ["n2-t000-x", "n2-t002-x"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("allocation",), "one of them"),
        (("allocation", "photo.png"), "no region given"),
        (("entropy", "--examples", "cat-tow"), "did you mean 'cat-two'"),
        (("sts", "--examples", "cat-two", "-r", "=a.png"), "-r belongs to a photo"),
        (("sts", *JOB, "--limit", "2"), "--limit belongs to --manifest"),
        (("sts", *JOB, "--preset", "quick"), "preset 'quick' is not known"),
        (("sts", *JOB, "--pi", "2"), "pi is 2"),
        (("sts", "photo.png", "-r", "left.png=gone.png"), "gone.png: no such file"),
        (("maps", *JOB, "-o", "photo.png"), "photo.png"),
        (("maps", "--examples", "all"), "one picture"),
        (("calibrate", *JOB, "--write-defaults"), "no model folder"),
        (("filter", "--r", "0.1,x"), "--r 0.1,x"),
        (("filter", "--r", "-1"), "above 0"),
        (("filter", "-o", "nowhere/out"), "no such folder"),
    ],
)
def test_bad_input_is_refused_before_any_work(refused, arguments, said: str):
    assert said in refused("analyze", *arguments)


def test_outputs_are_kept_unless_told_otherwise(run, refused):
    assert run("analyze", "filter", "-q").code == 0
    assert "exists already" in refused("analyze", "filter")
    assert run("analyze", "filter", "-q", "--overwrite").code == 0


def test_a_layer_that_is_not_there(analyze):
    outcome = analyze("maps", *JOB, "--layers", "7")
    assert outcome.code == 2 and "from 1 to 6" in outcome.err
