"""mast stylize on a tiny real model: every way to give regions, and every file it can write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_provenance

INPUTS = {"photo.png", "left.png", "right.png", "a.png", "b.png", "map.png"}


def made(folder: Path) -> set[str]:
    return set(os.listdir(folder)) - INPUTS


def pixels(name: str) -> np.ndarray:
    return np.asarray(Image.open(name))


def test_masks_and_a_left_over_region(stylize, folder: Path):
    outcome = stylize("photo.png", "-r", "left.png=a.png", "-r", "=b.png@0.7", "-o", "out.png")
    assert outcome.code == 0 and outcome.out == ""
    assert "out.png" in outcome.lines[-1] and "denoise" in outcome.lines[-1]
    assert made(folder) == {"out.png", "out.json"}
    assert Image.open("out.png").size == (96, 64)
    record = read_provenance("out.png")
    assert [r["coverage"] for r in record["regions"]] == [0.5, 0.5]
    assert [r["strength"] for r in record["regions"]] == [1.0, 0.7]
    assert record["regions"][1]["mask"] is None
    assert record["content"]["path"] == "photo.png", "relative to the picture: it names nobody's home"


def test_the_text_in_the_png_is_the_sidecar(stylize):
    stylize("photo.png", "-r", "=a.png", "-o", "out.png", "--pi", 0.8, "--no-ddi", "--tau", "1,2,3")
    text = Image.open("out.png").text["mast"]
    assert text == Path("out.json").read_text().rstrip("\n")
    method = json.loads(text)["method"]
    assert (method["pi"], method["ddi"], method["lama"], method["tau"]) == (0.8, False, True, [1.0, 2.0, 3.0])


def test_options_change_the_picture_and_equal_calls_do_not(stylize):
    calls = {
        "plain": (),
        "again": (),
        "pi": ("--pi", 0.2),
        "tau": ("--tau", 3),
        "lama": ("--no-lama",),
        "shared": ("--method", "shared"),
        "reconstruct": ("--method", "reconstruct"),
        "strength": ("--overwrite",),
    }
    for name, options in calls.items():
        style = "a.png@0.3" if name == "strength" else "a.png"
        assert stylize("photo.png", "-r", f"left.png={style}", "-o", f"{name}.png", *options).code == 0
    assert Path("plain.png").read_bytes() == Path("again.png").read_bytes()
    assert len({pixels(f"{name}.png").tobytes() for name in calls}) == len(calls) - 1


def test_a_photo_without_regions_is_reconstructed_when_asked(stylize):
    assert stylize("photo.png", "--method", "reconstruct", "-o", "out.png", "--contact-sheet").code == 0
    assert read_provenance("out.png")["method"]["name"] == "reconstruct"


def test_a_mask_of_another_size_but_the_same_shape(stylize):
    Image.open("left.png").resize((48, 32)).save("small.png")
    assert stylize("photo.png", "-r", "small.png=a.png", "-o", "out.png").code == 0
    assert read_provenance("out.png")["regions"][0]["coverage"] == pytest.approx(0.5, abs=0.01)


def test_overlap_is_noted_with_its_share(stylize):
    wide = np.zeros((64, 96), np.uint8)
    wide[:, :72] = 255
    Image.fromarray(wide).save("wide.png")
    outcome = stylize("photo.png", "-r", "wide.png=a.png", "-r", "right.png=b.png", "-o", "out.png", "--json")
    note = "masks overlap on 25.0% of the photo; there each counts by its share"
    assert f"note: {note}" in outcome.lines and note in json.loads(outcome.out)["notes"]


def test_exact_surroundings_stay_bit_by_bit(stylize):
    assert stylize("photo.png", "-r", "left.png=a.png", "-o", "out.png", "--keep", "exact").code == 0
    assert (pixels("out.png")[:, 48:] == pixels("photo.png")[:, 48:]).all()
    assert (pixels("out.png")[:, :40] != pixels("photo.png")[:, :40]).any()


# -------------------------------------------------------------------------------- maps and style masks


def test_a_colour_map(stylize):
    outcome = stylize(
        "photo.png", "--map", "map.png", "-s", "#ff0000=a.png", "-s", "00FF00=b.png@0.5", "-o", "o.png"
    )
    assert outcome.code == 0
    assert "note: map.png: #000000 (25.0%) has no style and stays as it is" in outcome.lines
    regions = read_provenance("o.png")["regions"]
    assert [r["mask"]["colour"] for r in regions] == ["ff0000", "00ff00"]
    assert [r["coverage"] for r in regions] == [0.5, 0.25]


def test_a_colour_map_whose_rest_has_a_style(stylize):
    outcome = stylize("photo.png", "--map", "map.png", "-s", "#ff0000=a.png", "-r", "=b.png", "-o", "o.png")
    assert outcome.code == 0
    assert "note: map.png: #00ff00 (25.0%) has no style and goes to what is left over" in outcome.lines
    assert [r["coverage"] for r in read_provenance("o.png")["regions"]] == [0.5, 0.5]


def test_a_map_and_the_same_masks_give_the_same_picture(stylize):
    stylize("photo.png", "--map", "map.png", "-s", "#ff0000=a.png", "-o", "map-made.png")
    stylize("photo.png", "-r", "left.png=a.png", "-o", "mask-made.png")
    assert (pixels("map-made.png") == pixels("mask-made.png")).all()


def test_a_style_mask_counts_only_its_part_of_the_painting(stylize):
    part = np.zeros((64, 64), np.uint8)
    part[:, :32] = 255
    Image.fromarray(part).save("part.png")
    Image.fromarray(np.full((64, 64), 255, np.uint8)).save("whole.png")
    for name, options in {"none": (), "whole": ("1=whole.png",), "part": ("1=part.png",)}.items():
        mask = ("--style-mask", *options) if options else ()
        assert stylize("photo.png", "-r", "left.png=a.png", "-o", f"{name}-out.png", *mask).code == 0
    assert (pixels("none-out.png") != pixels("part-out.png")).any()
    assert np.abs(pixels("none-out.png").astype(int) - pixels("whole-out.png")).max() <= 1
    assert read_provenance("part-out.png")["regions"][0]["style_mask"]["path"].endswith("part.png")


# -------------------------------------------------------------------------------- other files


def test_masks_are_saved_as_they_were_used(stylize, folder: Path):
    stylize("photo.png", "-r", "left.png=a.png", "-r", "=b.png", "-o", "out.png", "--save-masks")
    assert made(folder) == {"out.png", "out.json", "out.mask1.png", "out.mask2.png"}
    assert (pixels("out.mask1.png") == pixels("left.png")).all()
    assert (pixels("out.mask2.png") == pixels("right.png")).all()


def test_a_contact_sheet(stylize, folder: Path):
    stylize("photo.png", "-r", "left.png=a.png", "-r", "=b.png", "-o", "out.png", "--contact-sheet")
    assert made(folder) == {"out.png", "out.json", "out.sheet.png"}
    sheet = Image.open("out.sheet.png")
    widths = [384, 384, 256, 320, 384]  # photo, regions, two styles, result at 256 high
    assert sheet.width == 12 + sum(width + 12 for width in widths)


def test_a_preview_is_there_during_the_run_and_gone_after(stylize, folder: Path, monkeypatch):
    import mast.images as module

    seen: list[tuple[str, tuple[int, int]]] = []
    save = module.save_png

    def watch(image: Image.Image, path: Path) -> None:
        save(image, path)
        seen.append((path.name, Image.open(path).size))

    monkeypatch.setattr(module, "save_png", watch)
    assert stylize("photo.png", "-r", "=a.png", "-o", "out.png", "--preview-every", 1).code == 0
    assert seen == [("out.preview.png", (96, 64))] * 3  # all three steps move: the preset is the paper's
    assert made(folder) == {"out.png", "out.json"}


def test_a_file_that_only_looks_like_a_preview_is_left_alone(stylize):
    Path("out.preview.png").write_bytes(b"mine")
    assert stylize("photo.png", "-r", "=a.png", "-o", "out.png").code == 0
    assert Path("out.preview.png").read_bytes() == b"mine"


def test_overwrite_replaces_the_picture_and_its_record(stylize, folder: Path):
    Path("out.png").write_bytes(b"old")
    Path("out.json").write_bytes(b"old")
    assert stylize("photo.png", "-r", "=a.png", "-o", "out.png").code == 2
    assert Path("out.png").read_bytes() == b"old"
    assert stylize("photo.png", "-r", "=a.png", "-o", "out.png", "--overwrite").code == 0
    assert read_provenance("out.png") == read_provenance("out.json")
    assert made(folder) == {"out.png", "out.json"}


# -------------------------------------------------------------------------------- what it says


def test_json_is_one_object_on_stdout(stylize):
    arguments = ("--json", "--contact-sheet", "--save-masks", "--lam", 0.4)
    outcome = stylize("photo.png", "-r", "left.png=a.png", "-o", "out.png", *arguments)
    assert outcome.code == 0 and outcome.out.count("\n") == 1
    report = json.loads(outcome.out)
    assert report["output"] == "out.png"
    assert set(report["seconds"]) == {"import", "load", "prepare", "encode", "invert", "denoise", "decode"}
    assert all(seconds >= 0 for seconds in report["seconds"].values())
    assert report["peak_memory"] > 50_000_000
    assert report["settings"]["steps"] == 3 and report["settings"]["size"] == 64
    assert report["method"]["name"] == "mast" and report["method"]["lam"] == 0.4
    assert report["masks"] == ["out.mask1.png"] and report["contact_sheet"] == "out.sheet.png"
    assert len(report["model"]["fingerprint"]) == 16


def test_quiet_prints_nothing(stylize):
    outcome = stylize("photo.png", "-r", "left.png=a.png", "-r", "left.png=b.png", "-o", "out.png", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_a_second_run_says_what_it_did_not_have_to_do_again(stylize):
    stylize("photo.png", "-r", "=a.png", "-o", "one.png")
    second = stylize("photo.png", "-r", "=a.png", "-r", "left.png=b.png", "-o", "two.png")
    assert "note: 2 of 3 pictures were inverted in an earlier run" in second.lines
    uncached = stylize("photo.png", "-r", "=a.png", "-o", "three.png", "--no-cache")
    assert "earlier run" not in uncached.err
    assert (pixels("one.png") == pixels("three.png")).all()


def test_as_a_real_command_quiet_and_from_another_process_it_is_the_same_picture(
    stylize, folder, model, own_cache
):
    stylize("photo.png", "-r", "left.png=a.png", "-o", "here.png", "--no-cache")
    command = [
        sys.executable,
        "-c",
        "import torch; torch.set_num_threads(1); import mast.cli; mast.cli.main()",
    ]
    arguments = ["stylize", "photo.png", "-r", "left.png=a.png", "-o", "there.png", "--quiet", "--no-cache"]
    arguments += ["--model", str(model), "--steps", "3", "--size", "64"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (pixels("here.png") == pixels("there.png")).all()
    assert not own_cache.exists()
