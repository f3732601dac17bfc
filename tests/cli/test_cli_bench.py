"""mast bench make and report: what they print, what they refuse, and the whole way from photos to tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mast.bench.data.manifest import read
from tests.metrics.conftest import random_inception, random_lpips  # noqa: F401  (fixtures)
from tests.tiny import picture

W, H = 64, 64
Refused = Callable[..., str]


@pytest.fixture
def data(folder: Path) -> Path:
    """photos/, masks/, labels/, instances.json and styles/ in the working folder."""
    for name in ("photos", "masks", "labels", "styles"):
        (folder / name).mkdir()
    images, annotations = [], []
    for i, stem in enumerate(("cat", "dog")):
        picture(W, H, i).save(folder / "photos" / f"{stem}.png")
        bands = np.zeros((H, W), np.uint8)
        bands[:40], bands[:, 40:] = 1, 2
        Image.fromarray(bands).save(folder / "labels" / f"{stem}.png")
        for value, name in ((1, "top"), (2, "right")):
            Image.fromarray((bands == value).astype(np.uint8) * 255).save(
                folder / "masks" / f"{stem}-{name}.png"
            )
        images.append({"id": i, "file_name": f"{stem}.png", "width": W, "height": H})
        for j, corners in enumerate(([0, 0, 40, 0, 40, 40, 0, 40], [40, 0, 64, 0, 64, 64, 40, 64])):
            entry = {"id": 10 * i + j, "image_id": i, "category_id": 1, "segmentation": [corners]}
            annotations.append(entry)
    for i in range(6):
        picture(48, 48, 60 + i).save(folder / "styles" / f"s{i}.png")
    coco = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "pet"}]}
    (folder / "instances.json").write_text(json.dumps(coco))
    return folder


def make(*more: Any) -> tuple[Any, ...]:
    return ("bench", "make", "b", "--contents", "photos", "--styles", "styles", *more)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (("--annotations", "instances.json"), "coco"),
        (("--masks", "masks"), "masks"),
        (("--labels", "labels"), "labels"),
    ],
)
def test_make_prints_the_counts(
    run: Callable[..., Any], data: Path, source: tuple[str, str], kind: str
) -> None:
    outcome = run(*make(*source, "-n", "2,3"))
    assert outcome.code == 0, outcome.err
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["2", "2", "3", "6"] in rows and ["3", "2", "2", "4"] in rows and ["all", "10"] in rows
    assert str(data / "b" / "manifest.jsonl") in outcome.out
    manifest = read(data / "b")
    assert manifest.header.source == kind and manifest.header.unannotated == "background"
    assert "note: styles are ordered by" in outcome.err


def test_make_small(run: Callable[..., Any], data: Path) -> None:
    few = ("--max-contents", 1, "--max-styles", 4, "-n", "2", "--seed", 7, "-q")
    outcome = run(*make("--annotations", "instances.json", *few))
    assert outcome.code == 0, outcome.err
    header = read(data / "b").header
    assert (header.contents, header.styles, header.seed) == (1, 4, 7)
    again = run(*make("--annotations", "instances.json", *few, "--overwrite"))
    assert again.code == 0


def test_make_filled_by_a_segmenter_of_ones_own(run: Callable[..., Any], data: Path) -> None:
    (data / "own.py").write_text(
        "import numpy as np\n"
        "from mast.regions.segment import Proposal\n"
        "class Upper:\n"
        "    name = 'upper'\n"
        "    def propose(self, photo):\n"
        "        mask = np.zeros((photo.height, photo.width), bool)\n"
        "        mask[:44, :40] = True\n"
        "        return [Proposal(mask, 0.9)]\n"
    )
    outcome = run(*make("--annotations", "instances.json", "--fill", "own.py:Upper", "-n", "2,3"))
    assert outcome.code == 0, outcome.err
    made = read(data / "b")
    assert made.header.unannotated == "upper"
    largest = np.asarray(Image.open(made.of(2)[0].regions[0].mask.path))
    assert (largest == 255).sum() == 40 * 44  # the object ends at row 40, its segment at 44


def test_make_with_segments(run: Callable[..., Any], data: Path) -> None:
    outcome = run(*make("--annotations", "instances.json", "--segments", "labels", "-n", "2"))
    assert outcome.code == 0, outcome.err
    assert read(data / "b").header.unannotated == "segments"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (make(), "give one of --annotations"),
        (make("--masks", "masks", "--labels", "labels"), "give one of --annotations"),
        (make("--labels", "labels", "--segments", "labels"), "give it with --annotations"),
        (
            make("--labels", "labels", "--fill", "segment"),
            "--fill segment fills what COCO's annotations leave",
        ),
        (
            make("--annotations", "instances.json", "--segments", "labels", "--fill", "segment"),
            "leave one of",
        ),
        (
            make("--annotations", "instances.json", "--fill", "sky"),
            "choose background, segment, or FILE.py:CLASS",
        ),
        (
            make("--annotations", "instances.json", "--fill", "no.py:One"),
            "no.py:One: no segmenter of this name",
        ),
        (make("--labels", "labels", "-n", "two"), "-n two: write numbers"),
        (make("--labels", "labels", "-n", "1"), "from 2 to 16"),
        (make("--labels", "nowhere"), "nowhere: no such folder"),
        (make("--annotations", "nowhere.json"), "nowhere.json: no such"),
        (("bench", "make", "b", "--contents", "x", "--styles", "styles", "--labels", "labels"), "x: no such"),
        (("bench", "make", "photos", *make("--labels", "labels")[3:]), "photos: exists already"),
        (
            ("bench", "make", "b", "--contents", "photos", "--styles", "e", "--labels", "labels"),
            "no pictures",
        ),
        (("bench", "report", "nowhere"), "nowhere: no such folder"),
        (("bench", "report", "photos"), "photos: no variant in it"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    refused: Refused, data: Path, arguments: tuple[Any, ...], words: str
) -> None:
    (data / "e").mkdir()
    assert words in refused(*arguments)


def test_all_problems_come_in_one_message(run: Callable[..., Any], data: Path) -> None:
    (data / "photos" / "bird.png").write_bytes(b"no picture")
    (data / "labels" / "dog.png").unlink()
    outcome = run(*make("--labels", "labels", "-n", "2,3,9"))
    assert outcome.code == 2 and outcome.out == ""
    assert "because of 4 problems" in outcome.err
    for name in ("bird.png", "dog.png", "cat.png", "6 styles do not make one tuple of 9"):
        assert name in outcome.err
    assert not (data / "b").exists()


@pytest.mark.slow
def test_from_photos_to_tables(
    run: Callable[..., Any],
    data: Path,
    model: Path,
    random_inception: Path,  # noqa: F811
    random_lpips: Path,  # noqa: F811
) -> None:
    assert run(*make("--labels", "labels", "-n", "2", "--max-styles", 4)).code == 0
    tiny = ("--model", model, "--steps", 3, "--size", 64, "--device", "cpu", "-q")
    methods = ("--method", "mast", "--method", "styleid", "--composite", "all")
    made = run("bench", "run", "b", "--out", "runs", *methods, *tiny)
    assert made.code == 0, made.err
    nets = ("--inception-weights", random_inception, "--lpips-weights", random_lpips, "--repeats", 2)
    outcome = run("bench", "report", "runs", *nets, "--device", "cpu", "-q")
    assert outcome.code == 0, outcome.err
    for words in ("Comparison", "Compositing", "laplacian", "R-FID", "n = 4 for N = 2", "Inception: fid"):
        assert words in outcome.out, words
    written = {path.name for path in (data / "runs").glob("report.*")}
    assert {"report.md", "report.tex", "report.csv", "report.json"} <= written
    report = json.loads((data / "runs" / "report.json").read_text())
    assert {row["method"] for row in report["rows"]} == {"mast", "styleid"}
    assert len(report["scores"]) == 5 and all(s["artfid"] > 0 for s in report["scores"])
    named = run("bench", "report", "runs", *nets, "--variant", "mast", "--out", "mine", "--json", "-q")
    assert named.code == 0, named.err
    assert {score["variant"] for score in json.loads(named.out)["scores"]} == {"mast"}
    assert (data / "mine.tex").is_file()
    again = run("bench", "report", "runs", *nets, "--variant", "mast", "--out", "mine", "-q")
    assert again.code == 2 and "exists already" in again.err
