"""The grid is found where there is one, and models are judged on held-out pictures."""

import tarfile
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mast.bench.data.make import make
from mast.regions.sources import LabelSource
from tests.random_networks import write_inception
from tests.training.small import draw
from training import borders, choose, heldout, judge
from training.borders import border_ratio, flat_ratio, repetition, unevenness


def test_a_grid_is_found() -> None:
    rng = torch.Generator().manual_seed(0)
    plain = torch.rand(1, 3, 128, 128, generator=rng)
    assert border_ratio(plain) == pytest.approx(1, abs=0.05)
    cells = torch.rand(1, 3, 16, 16, generator=rng).repeat_interleave(8, 2).repeat_interleave(8, 3)
    assert border_ratio(plain * 0.1 + cells) > 3
    assert border_ratio(plain * 0.1 + cells.roll((4, 4), (2, 3))) < 1, "it must lie where cells meet"
    tile = torch.rand(1, 3, 8, 8, generator=rng).repeat(1, 1, 16, 16)
    assert repetition(tile) > 0.2 and repetition(cells) < 1e-6


def test_a_faint_grid_in_a_flat_area_is_found() -> None:
    rng = torch.Generator().manual_seed(0)
    picture = torch.rand(1, 3, 128, 128, generator=rng)
    picture[..., :68, :68] *= 0.02
    cells = torch.rand(1, 3, 16, 16, generator=rng).repeat_interleave(8, 2).repeat_interleave(8, 3)
    gridded = picture.clone()
    gridded[..., :68, :68] += 0.04 * cells[..., :68, :68]
    assert border_ratio(gridded) < 1.1, "textures hide it"
    assert flat_ratio(picture) == pytest.approx(1, abs=0.05) and flat_ratio(gridded) > 1.4
    assert unevenness(gridded) > 3 * unevenness(picture)


def test_borders_of_a_model(exported: Path, folder: Path, capsys) -> None:
    photo, style = str(folder / "0.png"), str(folder / "2.png")
    borders.main([str(exported), photo, "--styles", style, "--size", "64"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["0", "mean"]
    assert all(word in lines[0] for word in ("photo", "reconstruction", "stylized"))


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for stem, every, count in (("photos", 15, 2), ("paintings", 100, 3)):
        draw(rng).save(tmp_path / "trained.png")
        with tarfile.open(tmp_path / f"{stem}.tar", "w") as tar:
            for number in range((count - 1) * every + 1):
                path = tmp_path / "trained.png"
                if number % every == 0:
                    draw(rng).save(path := tmp_path / "held.png")
                tar.add(path, f"{number}.png")
    return tmp_path


@pytest.mark.slow
def test_models_are_judged(
    exported: Path, held_out: Path, weights: dict[str, Path], tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(judge, "WAYS", ((3, "plain"),))
    networks = [
        "--inception",
        str(write_inception(tmp_path / "inception.pth")),
        "--lpips",
        str(weights["alex"]),
    ]
    models = ["--model", str(exported), "--model", str(exported)]
    sheet = tmp_path / "sheet.png"
    judge.main(
        [
            "--images",
            str(held_out),
            *models,
            *networks,
            "--size",
            "64",
            "--pairs",
            "2",
            "--trips",
            "1",
            "--sheet",
            str(sheet),
        ]
    )
    rows = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()}
    for figure in ("cosine N=1", "R-KID N=2", "LPIPS N=1", "borders N=2", "3 plain, dB"):
        assert rows[figure][0] == rows[figure][1], "the same model twice has the same figures"
    assert float(rows["LPIPS N=1"][0]) > 0
    assert Image.open(sheet).height > 4 * 200


def test_held_out_pictures_make_a_benchmark(held_out: Path, tmp_path: Path, capsys) -> None:
    out, bench = tmp_path / "out", tmp_path / "bench"
    for _ in range(2):  # the second time over itself
        heldout.main(["--images", str(held_out), "--out", str(out), "--size", "64", "--photos", "1"])
        assert [line.rsplit(" ", 1)[1] for line in capsys.readouterr().out.splitlines()] == ["1", "1", "3"]
    assert all(Image.open(path).size == (64, 64) for path in out.rglob("*.png"))
    photos, paintings = (sorted((out / kind).iterdir()) for kind in ("photos", "paintings"))
    made = make(bench, photos, paintings, LabelSource(out / "labels"), (2,))
    assert len(made.samples) == 1
    with pytest.raises(SystemExit):
        heldout.main(["--images", str(tmp_path / "none"), "--out", str(out)])
    assert "is not a folder" in capsys.readouterr().err


def test_cases_are_always_the_same_and_held_out(held_out: Path) -> None:
    first, again = judge.make_cases(held_out, 2, 3, 64), judge.make_cases(held_out, 2, 3, 64)
    assert len(first) == 3 and len(first[0].styles) == 2
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(np.asarray(a.photo), np.asarray(b.photo))
        assert torch.equal(a.masks, b.masks)
    assert not np.array_equal(np.asarray(first[0].photo), np.asarray(first[1].photo))
    (held_out / "nothing").mkdir()
    with pytest.raises(FileNotFoundError, match=r"photos\.tar"):
        judge.make_cases(held_out / "nothing", 1, 1, 64)


def test_ways_differ_from_the_usual_one_in_one_thing() -> None:
    found = choose.ways([192, 256, 320], [0.25, 0.4, 0.6], [None, 1.5, 2.0])
    usual = found[0]
    assert usual == choose.Way(256, 0.4, None) and len(found) == len(set(found)) == 7
    for way in found[1:]:
        assert sum(a != b for a, b in zip(astuple(way), astuple(usual), strict=True)) == 1


@pytest.mark.slow
def test_ways_to_paint_are_measured_and_drawn(
    exported: Path, weights: dict[str, Path], tmp_path: Path, capsys
) -> None:
    inception, sheet = write_inception(tmp_path / "inception.pth"), tmp_path / "sheet.png"
    networks = ["--inception", str(inception), "--lpips", str(weights["alex"])]
    ways = ["--own", "64,128", "--refine", "0.4", "--tau", "model,2"]
    model = ["--model", str(exported), "--size", "128", "--steps", "3", "--cases", "2"]
    choose.main([*model, *networks, *ways, "--height", "64", "--sheet", str(sheet)])
    rows = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()}
    assert len(rows["cosine"]) == len(rows["LPIPS"]) == 3
    assert len(set(rows["LPIPS"])) > 1, "other ways make other pictures"
    assert Image.open(sheet).height > 2 * 64
