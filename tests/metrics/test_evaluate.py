"""A whole evaluation, on random weights of the real architectures: numbers, caching, damage, reports."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from mast.cli.app import app
from mast.job import InputError
from mast.metrics import Options, artfid_of_files, evaluate, from_folders, load_inception, load_lpips
from mast.metrics.store import Store
from tests.tiny import halves, picture


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three results of different shapes with two regions each, and masks whose borders cut feature cells."""
    root = tmp_path_factory.mktemp("evaluation")
    made = {name: root / name for name in ("stylized", "content", "styles", "masks")}
    for folder in made.values():
        folder.mkdir()
    for n, (width, height) in enumerate([(64, 64), (96, 64), (64, 64)]):
        picture(width, height, n).save(made["stylized"] / f"{n}.png")
        picture(width, height, n + 10).save(made["content"] / f"{n}.png")
        for i, mask in enumerate(halves(width, height)):
            picture(50, 70, 20 + i + n).save(made["styles"] / f"{n}-{i}.png")
            Image.fromarray((mask * 255).astype(np.uint8)).save(made["masks"] / f"{n}-{i}.png")
    return made


@pytest.fixture
def options(random_inception: Path, random_lpips: Path) -> Options:
    return Options(inception_weights=random_inception, lpips_weights=random_lpips, repeats=4)


def test_every_number_comes_with_its_n(folders: dict[str, Path], options: Options) -> None:
    stages = []
    report = evaluate(from_folders(*folders.values()), options, lambda *step: stages.append(step))
    assert (report.n, report.n_regions, report.n_styles, report.skipped_regions) == (3, 6, 4, 0)
    assert report.fid and report.lpips and report.rfid and report.mfid and report.ssim
    assert report.artfid == pytest.approx((1 + report.lpips) * (1 + report.fid))
    assert report.lpips == pytest.approx(sum(row["lpips"] for row in report.samples) / 3)
    assert report.networks["inception"].startswith("fid ") and report.networks["lpips"].startswith("alex ")
    assert any("biased upward" in note for note in report.notes)
    # three results and six style files, of which four differ
    assert [max(done for s, done, _ in stages if s == stage) for stage in ("features", "lpips", "r-fid")] == [
        9,
        3,
        4,
    ]


def test_a_second_evaluation_reads_what_the_first_computed(
    folders: dict[str, Path], options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(from_folders(*folders.values()), options)
    monkeypatch.setattr("mast.metrics.inception.Encoder.maps", None)  # computing would now fail
    monkeypatch.setattr("mast.metrics.lpips.Lpips.__call__", None)
    again = evaluate(from_folders(*folders.values()), options)
    assert {**again.to_dict(), "seconds": 0} == {**first.to_dict(), "seconds": 0}


def test_without_a_cache_nothing_is_left(
    folders: dict[str, Path], options: Options, own_cache: Path, random_inception: Path, random_lpips: Path
) -> None:
    plain = Options(
        inception_weights=random_inception, lpips_weights=random_lpips, repeats=4, cache=False, batch=1
    )
    report = evaluate(from_folders(*folders.values()), plain)
    assert not (own_cache / "metrics").exists()
    kept = evaluate(from_folders(*folders.values()), options)
    assert report.fid == pytest.approx(kept.fid, rel=1e-3) and report.rfid == pytest.approx(
        kept.rfid, rel=1e-3
    )


def test_the_pieces_give_the_same_numbers(folders: dict[str, Path], options: Options) -> None:
    """FID, LPIPS and ArtFID from lists of files, with each style as often as it is assigned."""
    found = from_folders(*folders.values())
    report = evaluate(found, options)
    encoder = load_inception("fid", options.inception_weights)
    values = artfid_of_files(
        [sample.stylized for sample in found.samples],
        [sample.content for sample in found.samples],
        [Path(str(region.style)) for sample in found.samples for region in sample.regions],
        encoder,
        load_lpips("alex", options.lpips_weights),
    )
    for name in ("fid", "lpips", "artfid"):
        assert values[name] == pytest.approx(getattr(report, name), rel=1e-3)


def test_styles_as_a_set_give_no_regional_numbers(
    folders: dict[str, Path], options: Options, tmp_path: Path
) -> None:
    for i in range(3):
        picture(64, 64, 30 + i).save(tmp_path / f"style {i}.png")
    report = evaluate(from_folders(folders["stylized"], folders["content"], tmp_path), options)
    assert report.fid is not None and report.rfid is None and report.n_styles == 3
    assert any("R-FID and M-FID need" in note for note in report.notes)


def test_damage_is_listed_or_left_out(
    folders: dict[str, Path], random_inception: Path, random_lpips: Path
) -> None:
    found = from_folders(*folders.values())
    damaged = folders["styles"] / "2-1.png"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:200])
    try:
        strict = Options(inception_weights=random_inception, lpips_weights=random_lpips, repeats=2)
        with pytest.raises(InputError, match=r"1 files are missing or damaged.*--skip-bad(.|\n)*2-1\.png"):
            evaluate(found, strict)
        lenient = Options(
            inception_weights=random_inception, lpips_weights=random_lpips, repeats=2, skip_bad=True
        )
        report = evaluate(found, lenient)
        assert report.n == 2 and report.n_regions == 4 and list(report.excluded) == [str(damaged)]
        assert [row["name"] for row in report.samples] == ["0", "1"]
    finally:
        damaged.write_bytes(whole)


def test_an_empty_region_is_skipped_and_counted(
    folders: dict[str, Path], options: Options, tmp_path: Path
) -> None:
    masks = tmp_path / "masks"
    masks.mkdir()
    for path in folders["masks"].iterdir():
        (masks / path.name).write_bytes(path.read_bytes())
    Image.new("L", (64, 64)).save(masks / "0-0.png")
    report = evaluate(from_folders(*[folders[k] for k in ("stylized", "content", "styles")], masks), options)
    assert (report.n_regions, report.skipped_regions) == (5, 1)


def test_a_cache_that_drops_entries_costs_time_only(
    folders: dict[str, Path], options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = evaluate(from_folders(*folders.values()), options)
    monkeypatch.setenv("MAST_CACHE_LIMIT", "1M")  # a map has half a megabyte
    small = evaluate(from_folders(*folders.values()), options)
    assert small.rfid == pytest.approx(full.rfid, rel=1e-3) and small.fid == pytest.approx(full.fid, rel=1e-3)


def test_results_and_photos_of_another_shape_are_not_compared(tmp_path: Path, options: Options) -> None:
    for folder, width in (("stylized", 64), ("content", 96)):
        (tmp_path / folder).mkdir()
        picture(width, 64).save(tmp_path / folder / "a.png")
    with pytest.raises(InputError, match="another shape than its photo"):
        evaluate(from_folders(tmp_path / "stylized", tmp_path / "content"), options)


def test_tiny_pictures_are_named(tmp_path: Path, options: Options) -> None:
    for folder in ("stylized", "content"):
        (tmp_path / folder).mkdir()
        picture(64, 24).save(tmp_path / folder / "a.png")
    with pytest.raises(InputError, match=r"a\.png: 64x24 is too small"):
        evaluate(from_folders(tmp_path / "stylized", tmp_path / "content"), options)


def test_bad_options_are_explained() -> None:
    for wrong in ({"inception": "vgg"}, {"repeats": 0}, {"size": 10}):
        with pytest.raises(InputError):
            Options(**wrong)


def test_the_store_names_files_by_content(
    folders: dict[str, Path], tmp_path: Path, random_inception: Path
) -> None:
    copy = tmp_path / "other-name.png"
    copy.write_bytes((folders["stylized"] / "0.png").read_bytes())
    encoder = load_inception("fid", random_inception)
    with Store() as store:
        assert store._map_key(encoder, copy) == store._map_key(encoder, folders["stylized"] / "0.png")
        other = load_inception("pytorch-fid", random_inception)
        assert store._map_key(other, copy) != store._map_key(encoder, copy)


def test_the_command(
    folders: dict[str, Path], random_inception: Path, random_lpips: Path, tmp_path: Path
) -> None:
    given = [x for name, path in folders.items() for x in (f"--{name}", str(path))]
    given += ["--inception-weights", str(random_inception), "--lpips-weights", str(random_lpips)]
    given += ["--repeats", "3", "--device", "cpu"]
    run = CliRunner().invoke
    table = run(app, ["eval", *given, "-o", str(tmp_path / "report.json")])
    assert table.exit_code == 0, table.exception
    for word in ("ArtFID", "R-FID", "3 results", "6 regions", "Inception fid"):
        assert word in table.stdout
    written = json.loads((tmp_path / "report.json").read_text())
    rows = list(csv.DictReader((tmp_path / "report.csv").open()))
    assert [row["name"] for row in rows] == ["0", "1", "2"]
    assert float(rows[0]["lpips"]) == pytest.approx(written["samples"][0]["lpips"])
    printed = json.loads(run(app, ["eval", *given, "--json"]).stdout)
    for name in ("fid", "lpips", "artfid", "rfid", "mfid", "n"):
        assert printed[name] == pytest.approx(written[name])
    kept = run(app, ["eval", *given, "-o", str(tmp_path / "report.json")])
    assert isinstance(kept.exception, InputError) and "--overwrite" in str(kept.exception)


@pytest.mark.parametrize(
    "given", [[], ["--stylized", "x"], ["results", "--content", "x"], ["nowhere"], ["--inception", "vgg"]]
)
def test_the_command_explains_what_it_needs(given: list[str]) -> None:
    outcome = CliRunner().invoke(app, ["eval", *given])
    assert isinstance(outcome.exception, InputError)


def test_a_stylized_picture_is_evaluated_from_its_record(
    tmp_path: Path, job, tiny_backbone, quick, options: Options
) -> None:
    from mast import stylize
    from mast.metrics import from_results

    for name in ("a", "b"):
        stylize(job, tiny_backbone, "mast", quick).save(tmp_path / f"{name}.png")
    report = evaluate(from_results(tmp_path), options)
    assert (report.n, report.n_regions, report.n_styles) == (2, 4, 2)
    assert report.rfid is not None and np.isfinite(report.rfid)
    assert torch.isfinite(torch.tensor(report.artfid))
