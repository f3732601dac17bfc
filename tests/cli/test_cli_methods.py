"""mast stylize with the other methods: options behind the name, compositors, regions found by the method."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

REGIONS = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png")


def test_a_single_style_method_is_composited_and_replays(run, stylize):
    outcome = stylize(
        *REGIONS, "--method", "styleid:gamma=0.3", "--composite", "hard", "-o", "out.png", "--json"
    )
    assert outcome.code == 0, outcome
    report = json.loads(outcome.out)
    assert report["method"]["name"] == "styleid" and report["method"]["gamma"] == 0.3
    assert report["settings"]["composite"] == "hard"
    assert run("replay", "out.png").code == 0
    assert (
        stylize(*REGIONS, "--method", "styleid:gamma=0.3", "--composite", "alpha", "-o", "soft.png").code == 0
    )
    hard, soft = (np.asarray(Image.open(name), np.int16) for name in ("out.png", "soft.png"))
    changed = np.abs(hard - soft).max(-1).max(0)
    assert changed[40:56].any() and not changed[:38].any() and not changed[58:].any()  # only at the border


@pytest.mark.parametrize("method", ["zstar", "cocodiff", "stylegallery:steps=2"])
def test_every_diffusion_method_paints_and_replays(run, stylize, method: str):
    assert stylize(*REGIONS, "--method", method, "-o", "out.png").code == 0
    assert Image.open("out.png").size == (96, 64)
    assert run("replay", "out.png").code == 0


@pytest.mark.parametrize("method", ["styleid", "zstar", "cocodiff", "stylegallery:steps=2"])
def test_a_method_as_released_says_so_in_its_record_and_replays(run, stylize, method: str):
    square = ("a.png", "-r", "=a.png")  # photo and style of one size
    name, _, others = method.partition(":")
    options = ",".join(filter(None, [others, "released=on"]))
    assert stylize(*square, "--method", f"{name}:{options}", "-o", "out.png").code == 0
    assert json.loads(Image.open("out.png").text["mast"])["method"]["released"] is True
    assert run("replay", "out.png").code == 0


def test_the_list_of_methods_shows_the_switch(run):
    shown = run("methods")
    assert shown.code == 0 and shown.out.count("released=on:") == 7
    listed = {entry["method"]: entry for entry in json.loads(run("methods", "--json").out)}
    assert "released" in listed["styleid"]["options"] and "961" in listed["styleid"]["released_changes"]
    assert "released" not in listed["mast"]["options"] and listed["mast"]["released_changes"] == ""
    assert listed["any-to-any"]["licence"] == "Apache-2.0 (AdaAttN)" and listed["bpc"]["licence"] == "MIT"


def test_a_method_finds_the_regions_itself(run, stylize):
    outcome = stylize(
        "photo.png", "-r", "=a.png", "-r", "=b.png", "--contact-sheet", "-o", "out.png",
        "--method", "stylegallery:auto=on,steps=2,semantic=none",
    )  # fmt: skip
    assert outcome.code == 0, outcome
    record = json.loads(Image.open("out.png").text["mast"])
    assert record["method"]["auto"] is True and [r["mask"] for r in record["regions"]] == [None, None]
    assert Image.open("out.sheet.png").size[0] > 96
    assert run("replay", "out.png").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "stileid"), "did you mean 'styleid'?"),
        (("--method", "styleid:gamma=2"), "gamma is 2"),
        (("--method", "styleid:gama=1"), "has no option 'gama'"),
        (("--method", "styleid:gamma=much"), "write a number"),
        (("--method", "styleid", "--composite", "glue"), "composite is 'glue'; choose one of hard, alpha"),
        (("--auto", 2), "--auto 2 finds the regions itself; write -r STYLE without a mask"),
        (("--auto", 1), "--auto 1: give a number of regions from 2 to 16"),
        (("--auto", 2, "--method", "stylegallery:auto=on"), "stylegallery finds the regions itself"),
        (("--method", "adain"), "mast weights fetch adain-vgg"),
        (("--method", "bpc"), "github.com/davidmhart/StyleTransferMasked"),
        (("--method", "any-to-any"), "Huage001"),
        (("--method", "stylemixer"), "iter_80000.pth.tar"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_model_is_loaded(refused, arguments, said: str):
    assert said in refused("stylize", *REGIONS, "-o", "out.png", "--model", "no-such-model", *arguments)


def test_masks_that_do_not_tile_are_refused_before_any_model_is_loaded(refused):
    half = ("photo.png", "-r", "left.png=a.png", "--method", "styleid", "--keep", "reconstruct")
    half += ("--model", "no-such-model")
    said = refused("stylize", *half, "-o", "out.png")
    assert "50.0% of the picture is uncovered" in said and "--keep exact" in said


def test_a_wrong_checkpoint_says_which_key_differs(refused, folder):
    import torch

    torch.save({"0.weight": torch.zeros(1)}, folder / "vgg_normalised.pth")
    torch.save({"1.weight": torch.zeros(1)}, folder / "decoder.pth")
    said = refused("stylize", *REGIONS, "-o", "out.png", "--method", f"adain:weights={folder}")
    assert "vgg_normalised.pth" in said and "0.bias is missing" in said
