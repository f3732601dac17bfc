"""mast compare: several methods, one sheet; resumed, refused in time, and never half done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_provenance

REGIONS = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png")


@pytest.fixture
def compare(run, model: Path):
    """`mast compare` on the narrow model, in few steps."""
    return lambda *arguments: run("compare", *arguments, "--model", model, "--steps", 3, "--size", 64)


def bytes_of(*names: str) -> list[bytes]:
    return [Path(name).read_bytes() for name in names]


def test_a_sheet_and_a_picture_per_method(compare, folder: Path):
    outcome = compare(*REGIONS, "--methods", "mast,shared,styleid", "-o", "s.png")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip() == "s.png"
    assert "mast (1 of 3)" in outcome.err and "styleid (3 of 3)" in outcome.err
    sheet = Image.open("s.png")
    photo = Image.open("photo.png")
    assert sheet.width > 5 * 256 * photo.width / photo.height and sheet.height > 3 * 256
    for name in ("mast", "shared", "styleid"):
        record = read_provenance(f"s.{name}.png")
        assert record["method"]["name"] == name and record["settings"]["steps"] == 3
        assert Image.open(f"s.{name}.png").size == photo.size
        assert Path(f"s.{name}.json").exists()
    record = json.loads(Path("s.json").read_text())
    assert [entry["method"] for entry in record["compared"]] == ["mast", "shared", "styleid"]
    assert all(entry["seconds"]["denoise"] >= 0 and not entry["made_before"] for entry in record["compared"])


def test_a_picture_is_what_stylize_makes(compare, stylize, folder: Path):
    assert compare(*REGIONS, "--methods", "styleid", "--composite", "hard", "-o", "s.png").code == 0
    assert stylize(*REGIONS, "--method", "shared", "-o", "shared.png", "-q").code == 0
    assert compare(*REGIONS, "--methods", "shared", "-o", "t.png").code == 0
    assert (np.asarray(Image.open("t.shared.png")) == np.asarray(Image.open("shared.png"))).all()
    assert read_provenance("s.styleid.png")["settings"]["composite"] == "hard"


def test_pictures_of_an_earlier_run_are_used_again(compare, folder: Path):
    assert compare(*REGIONS, "--methods", "mast,shared", "-o", "s.png").code == 0
    kept = bytes_of("s.mast.png", "s.mast.json", "s.shared.png")
    before = {entry["method"]: entry for entry in json.loads(Path("s.json").read_text())["compared"]}
    sheet = Image.open("s.png").size
    again = compare(*REGIONS, "--methods", "mast,shared,zstar", "-o", "s.png", "--json")
    assert again.code == 0, again.err
    assert "mast (1 of 3, made before)" in again.err and "zstar (3 of 3)" in again.err
    assert bytes_of("s.mast.png", "s.mast.json", "s.shared.png") == kept
    report = json.loads(again.out)
    assert [entry["made_before"] for entry in report["compared"]] == [True, True, False]
    assert report["compared"][0]["seconds"] == before["mast"]["seconds"], "what it took then"
    assert json.loads(Path("s.json").read_text()) == report
    assert Image.open("s.png").size[0] > sheet[0], "the sheet is drawn anew"
    assert "inverting" not in again.err.partition("zstar")[0], "no bar for passes that are not made"


def test_a_sheet_is_drawn_anew_but_nobody_elses_picture_is_replaced(compare, refused, model: Path, folder):
    assert compare(*REGIONS, "--methods", "shared", "-o", "s.png", "-q").code == 0
    first = Path("s.png").read_bytes()
    assert compare(*REGIONS, "--methods", "shared", "--height", 64, "-o", "s.png", "-q").code == 0
    assert Path("s.png").read_bytes() != first
    Image.open("photo.png").save("s.png")
    mine = Path("s.png").read_bytes()
    small = ("--model", model, "--steps", 3, "--size", 64)
    said = refused("compare", *REGIONS, "--methods", "shared", "-o", "s.png", *small)
    assert "s.png: exists already and is kept" in said and Path("s.png").read_bytes() == mine


def test_eval_takes_the_folder_of_a_comparison(compare, run, folder: Path, tmp_path: Path):
    from tests.small_bench import random_metrics

    Path("made").mkdir()
    assert compare(*REGIONS, "--methods", "mast,shared", "-o", "made/s.png", "-q").code == 0
    inception, lpips = random_metrics(tmp_path / "weights")
    nets = ("--inception-weights", inception, "--lpips-weights", lpips, "--repeats", 2)
    outcome = run("eval", "made", *nets, "--device", "cpu", "--json")
    assert outcome.code == 0, outcome.err
    assert {sample["name"] for sample in json.loads(outcome.out)["samples"]} == {"s.mast", "s.shared"}


def test_pictures_made_otherwise_are_kept_or_replaced(compare, refused, model: Path, folder: Path):
    assert compare(*REGIONS, "--methods", "mast", "-o", "s.png").code == 0
    kept = bytes_of("s.mast.png")
    small = ("--model", model, "--steps", 3, "--size", 64)
    other = refused("compare", *REGIONS, "--methods", "mast", "-o", "s.png", "--lam", 0.5, *small)
    assert "s.mast.png: exists already and is kept" in other
    assert bytes_of("s.mast.png") == kept
    assert compare(*REGIONS, "--methods", "mast", "-o", "s.png", "--lam", 0.5, "--overwrite").code == 0
    assert read_provenance("s.mast.png")["method"]["lam"] == 0.5
    changed = np.asarray(Image.open("a.png"))[::-1]
    Image.fromarray(changed).save("a.png")
    style = refused("compare", *REGIONS, "--methods", "mast", "-o", "s.png", "--lam", 0.5, *small)
    assert "s.mast.png: exists already" in style, "a style that has changed makes another picture"


def test_options_of_a_method_and_names_of_ones_own(compare, folder: Path):
    given = ("--method", "mast:lam=0.5,ddi=off", "--method", "soft=mast:tau=1", "--methods", "mast")
    assert compare(*REGIONS, *given, "-o", "s.png", "-q").code == 0
    entries = json.loads(Path("s.json").read_text())["compared"]
    assert [entry["method"] for entry in entries] == ["mast", "mast-lam0.5-no-ddi", "soft"]
    method = read_provenance("s.mast-lam0.5-no-ddi.png")["method"]
    assert (method["lam"], method["ddi"]) == (0.5, False)
    assert read_provenance("s.soft.png")["method"]["tau"] == 1


def test_what_is_wrong_is_refused_before_any_work(refused, model: Path, folder: Path):
    small = ("-o", "s.png", "--model", model, "--steps", 3, "--size", 64)
    assert "no method is called 'styleidd'; did you mean 'styleid'?" in refused(
        "compare", *REGIONS, "--methods", "mast,styleidd", *small
    )
    assert "mast is given twice" in refused("compare", *REGIONS, "--methods", "mast,mast", *small)
    assert "composite is 'soft'; choose one of hard" in refused(
        "compare", *REGIONS, "--composite", "soft", *small
    )
    assert "no region given" in refused("compare", "photo.png", *small)
    assert "2 jobs were given, choose one" in refused("compare", "--examples", "cat-two,coffee-three", *small)
    assert "nothing.png: no such file" in refused("compare", "photo.png", "-r", "=nothing.png", *small)
    assert "this is one of the inputs" in refused(
        "compare", *REGIONS, *small[2:], "-o", "a.png", "--overwrite"
    )
    assert "must end in .png" in refused("compare", *REGIONS, *small[2:], "-o", "sheet.jpg")


def test_a_method_without_weights_is_refused_before_any_work(refused, model: Path, folder: Path):
    from mast.weights.registry import weights_folder  # in the cache folder, which is this test's own

    assert not weights_folder().exists()
    said = refused(
        "compare", *REGIONS, "--methods", "mast,stylemixer", "-o", "s.png", "--model", model, "--size", 64
    )
    assert str(weights_folder()) in said and "no such file" in said


def test_masks_that_do_not_tile_are_refused_before_any_work(refused, compare, model: Path, folder: Path):
    one = ("photo.png", "-r", "left.png=a.png", "--methods", "mast,styleid", "-o", "s.png")
    small = ("--model", model, "--steps", 3, "--size", 64)
    said = refused("compare", *one, "--keep", "reconstruct", *small)
    assert "50.0% of the picture is uncovered; give one region no mask" in said
    kept = compare(*one, "--keep", "exact", "-q")
    assert kept.code == 0, kept.err
    photo, made = np.asarray(Image.open("photo.png")), np.asarray(Image.open("s.styleid.png"))
    assert (photo[:, 60:] == made[:, 60:]).all() and (photo[:, :40] != made[:, :40]).any()


def test_a_record_of_something_else_is_not_written_over(refused, model: Path, folder: Path):
    Path("s.json").write_text('{"notes": "mine"}')
    said = refused("compare", *REGIONS, "-o", "s.png", "--model", model)
    assert "s.json: exists already and is kept" in said


def test_squares_are_compared_as_squares_and_known_again(compare, run, folder: Path):
    given = (*REGIONS, "--methods", "mast,styleid", "--fit", "square", "-o", "s.png")
    assert compare(*given).code == 0
    assert {Image.open(f"s.{name}.png").size for name in ("mast", "styleid")} == {(64, 64)}
    assert run("replay", "s.styleid.png").lines[-1] == "s.styleid.png: bit-equal"
    again = compare(*given)
    assert "mast (1 of 2, made before)" in again.err and "styleid (2 of 2, made before)" in again.err
