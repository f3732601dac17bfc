"""mast stylize JOB.toml and mast job: one file says it all, and the command line counts more."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

JOB = """\
photo = "photo.png"
output = "from-file.png"
method = "mast:lam=0.1"
model = "{model}"

[settings]
steps = 3
size = 64

[[region]]
name = "cat"
style = "a.png"
mask = "left.png"

[[region]]
style = "b.png"
strength = 0.7
"""
BY_HAND = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png@0.7", "--lam", 0.1)


@pytest.fixture
def job(folder: Path, model: Path) -> Path:
    (folder / "job.toml").write_text(JOB.format(model=model))
    return folder / "job.toml"


def pixels(name: str) -> np.ndarray:
    return np.asarray(Image.open(name).convert("RGB"))


def record(name: str) -> dict:
    return json.loads(Image.open(name).text["mast"])


def test_a_job_file_paints_what_the_command_line_would(run, stylize, job: Path):
    outcome = run("stylize", job.name)
    assert outcome.code == 0, outcome
    assert stylize(*BY_HAND, "-o", "by-hand.png").code == 0
    assert record("from-file.png") == record("by-hand.png")
    assert np.array_equal(pixels("from-file.png"), pixels("by-hand.png"))
    assert run("replay", "from-file.png").code == 0


def test_from_any_folder(run, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert run("stylize", job).code == 0
    assert (job.parent / "from-file.png").exists() and not list((tmp_path / "else").iterdir())


def test_the_command_line_counts_more(run, job: Path):
    outcome = run(
        "stylize", job.name, "-o", "other.png", "--steps", 2, "--method", "mast", "--pi", 0.5, "--json"
    )
    assert outcome.code == 0, outcome
    report = json.loads(outcome.out)
    assert report["output"] == "other.png" and report["settings"]["steps"] == 2
    assert report["settings"]["size"] == 64  # the file's
    assert report["method"]["pi"] == 0.5 and report["method"]["lam"] != 0.1
    assert not Path("from-file.png").exists()
    report = json.loads(run("stylize", job.name, "-r", "b.png", "--preset", "fast", "--json").out)
    assert report["settings"]["steps"] == 12 and report["method"]["lam"] == 0.1
    assert [region["style"]["path"] for region in record("from-file.png")["regions"]] == ["b.png"]


def test_what_is_wrong_is_told_before_a_model_is_loaded(refused, job: Path):
    text = job.read_text()
    for old, new, said in (
        ("left.png", "gone.png", "job.toml:13: gone.png: no such file"),
        ("size = 64", "size = 7", "job.toml:8: size is 7; it must be"),
        ("size = 64", "sizes = 64", "job.toml:8: [settings] has no 'sizes'; did you mean size?"),
        ("mast:lam", "mast:lum", "job.toml:3: method 'mast' has no option 'lum'"),
    ):
        job.write_text(text.replace(old, new).replace("model =", 'model = "no-such-model" #'))
        assert said in refused("stylize", "job.toml")
    job.write_text(text)
    assert "give one job file" in refused("stylize", "job.toml", "--job", "job.toml")
    assert "mast stylize PHOTO... --job job.toml" in refused("stylize", "job.toml", "a.png")
    assert "gone.toml: no such file" in refused("stylize", "gone.toml")
    Path("from-file.png").write_bytes(b"mine")
    assert "from-file.png: exists already" in refused("stylize", "job.toml")
    assert "photo.png: this is one of the inputs" in refused(
        "stylize", "job.toml", "-o", "photo.png", "--overwrite"
    )


def test_another_photo_with_the_same_job(run, job: Path):
    Image.open("photo.png").transpose(Image.Transpose.ROTATE_180).save("turned.png")
    assert run("stylize", "turned.png", "--job", "job.toml", "-o", "out.png").code == 0
    assert record("out.png")["content"]["path"] == "turned.png"


def test_a_picture_becomes_a_job_file_and_the_same_picture_again(run, stylize, folder: Path):
    regions = ("photo.png", "--map", "map.png", "-s", "#ff0000=a.png@0.3", "-r", "b.png")
    assert stylize(*regions, "-o", "out.png", "--tau", ".11/.65/1", "--no-ddi", "--fit", "pad").code == 0
    (folder / "jobs").mkdir()
    outcome = run("job", "out.png", "-o", "jobs/out.toml")
    assert outcome.code == 0, outcome
    text = Path("jobs/out.toml").read_text()
    assert 'photo = "../photo.png"' in text and 'mask = "../map.png#ff0000"' in text
    assert "is kept" in run("stylize", "jobs/out.toml").err  # its output is the picture itself
    outcome = run("stylize", "jobs/out.toml", "-o", "again.png")
    assert outcome.code == 0, outcome
    assert record("again.png") == record("out.png")
    assert np.array_equal(pixels("again.png"), pixels("out.png"))
    shutil.copy("out.json", "beside.json")
    assert run("job", "beside.json", "-o", "beside.toml").code == 0


def test_every_method_survives_the_way_through_a_file(run, stylize):
    regions = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png")
    for method in ("styleid:gamma=0.3", "stylegallery:steps=2,semantic=none", "zstar"):
        assert stylize(*regions, "--method", method, "-o", "out.png", "--overwrite").code == 0
        assert run("job", "out.png", "-o", "out.toml", "--overwrite").code == 0
        assert run("stylize", "out.toml", "-o", "again.png", "--overwrite").code == 0
        assert record("again.png") == record("out.png")


def test_what_cannot_become_a_job_file(refused, run, stylize):
    assert "carries no record" in refused("job", "photo.png", "-o", "x.toml")
    assert stylize("photo.png", "-r", "a.png", "-o", "out.png").code == 0
    assert "must end in .toml" in refused("job", "out.png", "-o", "x.txt")
    Image.open("b.png").save("a.png")
    assert "has changed since the picture was made" in refused("job", "out.png", "-o", "x.toml")


def test_regions_that_are_found_become_a_job_file(run, folder: Path, model: Path):
    found = ("regions", "auto", "photo.png", "-n", 2, "--segmenter", "colours", "-o", "found", "-q")
    outcome = run(*found, "--job", "job.toml", "--style", "a.png", "--style", "b.png")
    assert outcome.code == 0, outcome
    assert run("stylize", "job.toml", "--model", model, "--steps", 3, "--size", 64, "-o", "out.png").code == 0
    masks = [region["mask"]["path"] for region in record("out.png")["regions"]]
    assert masks == ["found/object.png", "found/background.png"]
    outcome = run(*found, "--job", "job.toml", "--overwrite", "--style", "a.png")
    assert outcome.code == 2 and "give 2, one for each region, or none" in outcome.err
    assert run(*found, "--job", "job.toml", "--overwrite").code == 0  # to be filled in
    outcome = run("stylize", "job.toml")
    assert outcome.code == 2 and "job.toml:" in outcome.err and "style is empty" in outcome.err
    outcome = run(*found[:-3], "-o", "other", "--style", "a.png")
    assert outcome.code == 2 and "--style belongs to --job" in outcome.err


def test_the_examples_are_what_the_docs_show_and_can_be_painted(run, model: Path):
    from mast.examples import examples_folder
    from mast.pipeline.jobfile import read_jobfile

    examples = examples_folder()
    docs = Path(__file__).parents[2] / "docs" / "jobs.md"
    (shown,) = re.findall(r"```toml\n(.*?)```", docs.read_text(), re.DOTALL)
    assert (examples / "cat.toml").read_text().endswith("\n\n" + shown)
    small = ("--model", model, "--steps", 2, "--size", 64)
    assert run("stylize", examples / "cat.toml", *small, "-o", "cat.png").code == 0
    two = read_jobfile(examples / "two-styles.toml", examples / "photos" / "cat.jpg")
    assert two.auto == 2 and two.names == ("object", "background")


# ------------------------------------------------------------ regions that are found while painting


def test_regions_are_found_and_kept_beside_the_picture(run, stylize, folder: Path):
    arguments = ("photo.png", "-r", "a.png", "-r", "b.png@0.5", "--auto", 2, "--segmenter", "colours")
    outcome = stylize(*arguments, "-o", "out.png")
    assert outcome.code == 0, outcome
    assert "note: the regions it found: out.regions/overlay.png" in outcome.lines
    masks = [region["mask"]["path"] for region in record("out.png")["regions"]]
    assert masks == ["out.regions/object.png", "out.regions/background.png"]
    assert run("replay", "out.png").code == 0
    Image.new("L", (96, 64), 255).save("out.regions/object.png")  # whoever edits a mask keeps it
    assert stylize(*arguments, "-o", "out.png", "--overwrite").code == 0
    assert record("out.png")["regions"][0]["coverage"] > 0.49
    shutil.copy("a.png", "photo2.png")
    other = ("photo2.png", *arguments[1:])
    outcome = stylize(*other, "-o", "out.png", "--overwrite")
    assert outcome.code == 0 and record("out.png")["content"]["path"] == "photo2.png"
    for old in ("out.png", "out.json"):
        Path(old).unlink()
    outcome = stylize(*other[:5], "-r", "a.png", "--auto", 3, *other[7:], "-o", "out.png")
    assert outcome.code == 2 and "out.regions: holds the regions of another photo" in outcome.err


def test_as_a_job_file(run, job: Path):
    text = job.read_text().replace('mask = "left.png"\n', "")
    job.write_text("auto = 2\n" + text)
    outcome = run("stylize", "job.toml", "--segmenter", "colours")
    assert outcome.code == 0, outcome
    assert record("from-file.png")["regions"][1]["mask"]["path"] == "from-file.regions/background.png"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("-r", "a.png", "--auto", 2),
            "--auto 2: 1 styles are given; give one for each region with",
        ),
        (("-r", "a.png", "-r", "gone.png", "--auto", 2), "gone.png: no such file"),
        (("a.png", "-r", "b.png"), "a.png: give paintings either after the photo"),
    ],
)
def test_what_cannot_be_found_is_refused_before_any_model_is_loaded(refused, arguments, said: str):
    end = ("--segmenter", "colours", "-o", "out.png", "--model", "no-such-model")
    assert said in refused("stylize", "photo.png", *arguments, *end)


# ------------------------------------------------------------ parts of a source


def test_a_part_of_a_source_is_a_mask_everywhere(run, stylize, folder: Path):
    labels = np.ones((64, 96), np.int32)
    labels[:, :48] = 2
    np.save("labels.npy", labels)
    assert stylize("photo.png", "-r", "labels.npy#label-2=a.png", "-r", "b.png", "-o", "out.png").code == 0
    assert record("out.png")["regions"][0]["mask"]["part"] == "label-2"
    assert run("replay", "out.png").code == 0
    assert run("job", "out.png", "-o", "job.toml").code == 0
    assert 'mask = "labels.npy#label-2"' in Path("job.toml").read_text()
    assert stylize("photo.png", "-r", "left.png=a.png", "-r", "b.png", "-o", "same.png").code == 0
    assert np.array_equal(pixels("out.png"), pixels("same.png"))
