"""mast models, methods, cache and demo."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from PIL import Image

from mast.examples import case_job, examples_folder, load_cases
from mast.images import read_provenance, read_rgb
from mast.regions.masks import read_masks


def test_help_names_every_command(run):
    outcome = run("--help")
    assert outcome.code == 0
    for command in ("stylize", "compare", "replay", "demo", "models", "methods", "cache"):
        assert command in outcome.out


def test_models_are_listed_with_whole_names(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from mast.backbone.load import KNOWN

    hub = tmp_path / "hub"
    snapshot = hub / "models--CompVis--stable-diffusion-v1-4" / "snapshots" / "abc" / "unet"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    outcome = run("models")
    assert outcome.code == 0
    rows = {line.split()[0]: line.split()[1] for line in outcome.out.splitlines() if "/" in line.split()[0]}
    assert set(rows) >= {known.name for known in KNOWN if known.name != "preview"}
    assert rows["CompVis/stable-diffusion-v1-4"] == "yes"
    assert rows["stabilityai/stable-diffusion-2-1-base"] == "no"


@pytest.mark.parametrize("columns", [80, 100, 149, 150, 200])
def test_methods_are_listed_in_whole_words_at_any_width(run, columns: int, monkeypatch: pytest.MonkeyPatch):
    from mast.methods import METHODS

    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = run("methods")
    lines = outcome.out.splitlines()
    assert outcome.code == 0 and max(map(len, lines)) <= columns
    first = [line.split()[0] for line in lines if line[:1].strip()]
    assert [name for name in first if name != "method"] == list(METHODS)
    seen = set(outcome.out.replace(";", " ").split())
    for method in METHODS.values():
        said = (method.family, method.needs, method.licence, method.reference, method.about)
        for fact in (*said, method.released_changes):
            assert set(fact.replace(";", " ").split()) <= seen, fact


def test_methods_as_json(run):
    from mast.methods import METHODS

    outcome = run("methods", "--json")
    rows = json.loads(outcome.out)
    assert outcome.code == 0 and [row["method"] for row in rows] == list(METHODS)
    assert set(rows[0]) == {
        "method",
        "family",
        "needs",
        "licence",
        "reference",
        "about",
        "options",
        "released_changes",
    }
    mast = rows[0]
    assert mast["method"] == "mast" and mast["family"] == "regional-multi"
    assert {"lam", "pi", "r", "lama", "sts", "ddi"} <= set(mast["options"])
    assert not any(option.startswith("_") for row in rows for option in row["options"])


def test_every_method_tells_of_itself_in_one_line():
    from mast.methods import METHODS

    for name, method in METHODS.items():
        assert method.family in ("global-single", "regional-single", "regional-multi"), name
        assert method.needs and method.licence and method.about, name
        assert method.reference or name == "reconstruct"
        assert len(method.about) <= 100 and "\n" not in method.about and not method.about.endswith("."), name


def test_the_cache_is_listed_pruned_and_cleared(run, stylize, own_cache: Path, refused):
    assert "0 files, 0 B of" in run("cache", "list").out
    stylize("photo.png", "-r", "=a.png", "-o", "out.png", "-q")
    listed = run("cache", "list")
    assert listed.code == 0
    assert "4 files" in listed.out and str(own_cache) in listed.out  # a trajectory and features, twice
    assert listed.out.count("trajectories") == listed.out.count("features ") == 2
    assert "--limit is 'much'; give bytes" in refused("cache", "prune", "--limit", "much")
    assert "freed 0 B" in run("cache", "prune", "--limit", "1G").err
    smallest = min(path.stat().st_size for path in own_cache.rglob("*.safetensors"))
    assert run("cache", "prune", "--limit", smallest).code == 0
    assert len(list(own_cache.rglob("*.safetensors"))) <= 1
    assert run("cache", "clear").code == 0
    assert not list(own_cache.rglob("*.safetensors"))
    assert "0 files, 0 B of" in run("cache", "list").out


def test_the_cache_is_listed_by_pictures_sizes_and_dates(run, own_cache: Path):
    import torch

    from mast.features.cache import Cache

    name = "cat[/bold] 512x384"
    Cache().write("trajectories", "0" * 32, {"latents": torch.zeros(1000)}, about=name)
    listed = run("cache", "list").out
    assert name in listed and "4.2 kB" in listed and time.strftime("%Y-%m-%d") in listed


def test_a_cache_limit_that_is_none_is_refused(refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAST_CACHE_LIMIT", "lots")
    assert "MAST_CACHE_LIMIT is 'lots'; give bytes, or a number with K, M or G" in refused("cache", "list")


# -------------------------------------------------------------------------------- the bundled examples


FOLDER = examples_folder()
CASES = load_cases(FOLDER)


def test_there_are_cases_with_two_three_and_five_regions_and_names_of_their_own():
    assert [len(case["regions"]) for case in CASES[:3]] == [2, 3, 5]
    assert len({case["name"] for case in CASES}) == len(CASES) >= 10


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_case_has_files_that_fit_and_masks_that_tile(case: dict):
    job = case_job(case, FOLDER)
    photo = read_rgb(job.content)
    for region in job.regions:
        assert min(read_rgb(region.style).size) >= 256
        if region.mask is not None:
            assert Image.open(region.mask).size == photo.size, region.mask
    notes: list[str] = []
    masks = read_masks(job, photo.size, notes)
    assert notes == []
    assert masks.mean((1, 2)).min() > 0.005, "no region is a mere speck"
    if any(region.mask is None for region in job.regions):
        assert masks.sum(0).sub(1).abs().max() < 0.01


def test_the_examples_hold_nothing_that_no_license_is_told_of():
    told = (FOLDER / "SOURCES.md").read_text()
    used = {Path(case["content"]).stem for case in CASES}
    assert all(name in told for name in used)


@pytest.mark.slow
def test_the_demo_makes_its_pictures_with_the_embedded_model(run, folder: Path):
    outcome = run("demo", "--quick", "--size", 128, "--out", "made")
    assert outcome.code == 0, outcome.err
    assert outcome.out.split() == ["made/cat-two.png", "made/contact-sheet.png"]
    assert "case" in outcome.err and "model preview" in outcome.err
    assert sorted(path.name for path in Path("made").iterdir()) == [
        "cat-two.json",
        "cat-two.png",
        "contact-sheet.png",
    ]
    assert Image.open("made/cat-two.png").size == Image.open(FOLDER / "photos" / "cat.jpg").size
    assert read_provenance("made/cat-two.png")["model"]["name"] == "preview"
    kept = Path("made/cat-two.png").read_bytes()
    again = run("demo", "--quick", "--size", 128, "--out", "made")
    assert again.code == 2 and "exists already and is kept" in again.err
    quiet = run("demo", "--quick", "--size", 128, "--out", "made", "--overwrite", "--quiet")
    assert quiet.code == 0 and quiet.err == ""
    assert Path("made/cat-two.png").read_bytes() == kept


def test_a_demo_that_cannot_start_leaves_nothing(refused):
    assert "photo.png: no folder can be made there" in refused("demo", "--out", "photo.png")
    assert "size is 10; it must be" in refused("demo", "--out", "made", "--size", 10)
    assert not Path("made").exists()
