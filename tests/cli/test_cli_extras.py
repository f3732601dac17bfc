"""Beside the picture: formats, metadata, sheets and previews; none of them ever costs the picture."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_provenance, read_rgb

REGIONS = ("photo.png", "-r", "left.png=a.png", "-r", "rest=b.png")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """From then on no picture can be written whose name holds a word."""
    import mast.images as module

    save = module.save_png

    def fill(word: str) -> None:
        def failing(image: Image.Image, path: Path) -> None:
            if word in path.name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            save(image, path)

        monkeypatch.setattr(module, "save_png", failing)

    return fill


@pytest.mark.parametrize(
    ("word", "options", "beside"),
    [
        ("sheet", ("--contact-sheet", "--save-masks"), ["out.mask1.png", "out.mask2.png"]),
        ("mask2", ("--contact-sheet", "--save-masks"), ["out.mask1.png", "out.sheet.png"]),
        ("preview", ("--contact-sheet", "--preview-every", 1), ["out.sheet.png"]),
    ],
)
def test_what_cannot_be_written_beside_the_picture_is_named(
    stylize, folder: Path, full_disk, word: str, options: tuple, beside: list[str]
):
    before = set(os.listdir(folder))
    full_disk(word)
    outcome = stylize(*REGIONS, "-o", "out.png", *options, "--json")
    assert outcome.code == 0, outcome.err
    assert set(os.listdir(folder)) - before == {"out.png", "out.json", *beside}
    assert read_provenance("out.png")["method"]["name"] == "mast"
    said = [line for line in outcome.lines if "not written" in line]
    assert len(said) == 1 and f"out.{word}" in said[0] and "No space left on device" in said[0]
    report = json.loads(outcome.out)
    assert any("not written" in note for note in report["notes"])
    assert ("contact_sheet" in report) == ("out.sheet.png" in beside)


def test_a_method_that_finds_its_regions_has_a_contact_sheet_too(stylize, run):
    outcome = stylize(
        "photo.png", "-r", "=a.png", "-r", "=b.png", "--contact-sheet", "--save-masks", "-o", "out.png",
        "--method", "stylegallery:auto=on,steps=2,semantic=none",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    widths = [384, 256, 320, 384]  # photo, two styles, result at 256 high; nobody has drawn regions
    assert "note: no masks are saved: stylegallery finds the regions itself" in outcome.lines
    assert not Path("out.mask1.png").exists()
    assert Image.open("out.sheet.png").width == 12 + sum(width + 12 for width in widths)
    assert run("replay", "out.png").code == 0


# ------------------------------------------------------------------------------------------------ formats


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif"])
def test_a_format_by_its_suffix_with_its_record_replays(stylize, run, suffix: str):
    assert stylize(*REGIONS, "-o", f"out{suffix}").code == 0
    kinds = {".png": "PNG", ".jpg": "JPEG", ".webp": "WEBP", ".tif": "TIFF"}
    assert Image.open(f"out{suffix}").format == kinds[suffix]
    assert read_provenance(f"out{suffix}")["settings"]["steps"] == 3
    for name in (f"out{suffix}", "out.json"):
        outcome = run("replay", name)
        assert outcome.code == 0, outcome.err
        assert outcome.lines[-1] == f"out{suffix}: bit-equal"


def test_other_suffixes_are_refused(refused):
    said = refused("stylize", *REGIONS, "-o", "out.gif")
    assert "out.gif: the output must end in .png or .jpg" in said


def test_no_metadata_leaves_no_trace(stylize, folder: Path, refused):
    assert stylize(*REGIONS, "-o", "out.png", "--no-metadata").code == 0
    assert stylize(*REGIONS, "-o", "told.png").code == 0
    assert not Path("out.json").exists()
    assert str(folder).encode() not in Path("out.png").read_bytes()
    assert b"left" not in Path("out.png").read_bytes() and b"steps" in Path("told.png").read_bytes()
    assert (np.asarray(read_rgb("out.png")) == np.asarray(read_rgb("told.png"))).all()
    assert "carries no record" in refused("replay", "out.png")


# ---------------------------------------------------------------------------- no diffusion model unneeded


@pytest.fixture
def no_diffusion(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a diffusion model was loaded")

    for name in ("mast.backbone.load", "mast.pipeline.stylize", "mast.bench.run.worker"):
        monkeypatch.setattr(import_module(name), "load", refuse)


@pytest.fixture(scope="session")
def adain_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random networks in AdaIN's files."""
    import torch

    from mast.methods.feedforward.vgg import Vgg, VGGDecoder
    from mast.weights.registry import known
    from tests.random_networks import awake

    folder = tmp_path_factory.mktemp("adain")
    torch.manual_seed(0)
    for name, network in {"adain-vgg": Vgg(), "adain-decoder": VGGDecoder()}.items():
        torch.save(awake(network).state_dict(), folder / known(name).sources[0].file)
    return folder


def test_a_method_with_networks_of_its_own_loads_no_diffusion_model(
    run, stylize, folder: Path, adain_weights: Path, no_diffusion: None
):
    from tests.small_bench import make_bench

    adain = f"adain:weights={adain_weights}"
    first = stylize(*REGIONS, "--method", adain, "-o", "out.png", "--json")
    assert first.code == 0, first.err
    assert first.err.startswith("loading adain ...")
    assert json.loads(first.out)["model"]["name"] is None
    assert run("replay", "out.png").code == 0
    assert run("compare", *REGIONS, "--method", f"adain={adain}", "--size", 64, "-o", "s.png").code == 0
    ours = (read_provenance("out.png"), read_provenance("s.adain.png"))
    assert ours[0] == ours[1], "the same picture has the same record, whichever command made it"
    make_bench(folder / "data", 1, 1)
    made = run("bench", "run", "data", "--out", "runs", "-m", f"adain={adain}", "--size", 64)
    assert made.code == 0, made.err
    assert len(list(Path("runs/adain").glob("*.png"))) == 1
