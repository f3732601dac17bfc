"""A whole evaluation, on random weights of the real architectures: numbers, caching, damage, reports."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from mast.cli.app import app
from mast.job import InputError, Region
from mast.metrics import (
    METRICS,
    EvaluatedPicture,
    Evaluation,
    Options,
    artfid,
    evaluate,
    fid,
    from_folders,
    load_inception,
    load_lpips,
    ssim,
    statistics,
)
from mast.metrics.evaluation import BIASED, FEW
from mast.metrics.intervals import interval_of_mean
from mast.metrics.samples import Looked
from mast.metrics.store import Store, read_pair, to_levels
from mast.tables import terminal
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


@pytest.mark.usefixtures("warm_cache")
def test_every_number_comes_with_its_n(folders: dict[str, Path], options: Options) -> None:
    stages = []
    report = evaluate(from_folders(*folders.values()), options, lambda *step: stages.append(step))
    assert (report.n, report.n_regions, report.n_styles, report.skipped_regions) == (3, 6, 4, 0)
    assert report.fid and report.lpips and report.rfid and report.mfid and report.ssim
    assert report.artfid == pytest.approx((1 + report.lpips) * (1 + report.fid))
    assert report.lpips == pytest.approx(sum(row["lpips"] for row in report.samples) / 3)
    assert report.networks["inception"].startswith("fid ") and report.networks["lpips"].startswith("alex ")
    assert report.rfid == pytest.approx(report.rfid_mean_term + report.rfid_trace_term)
    assert report.rkid_std is not None and 0 < report.region_variance < report.rfid_trace_term * 10
    cosines = [row["cosine"] for row in report.samples]
    assert -1 <= report.cosine <= 1 and report.cosine == pytest.approx(sum(cosines) / 3)
    assert BIASED in report.notes and FEW in report.notes and report.intervals == {}
    # three results and six style files, of which four differ
    assert [max(done for s, done, _ in stages if s == stage) for stage in ("features", "lpips", "r-fid")] == [
        9,
        3,
        4,
    ]


@pytest.mark.usefixtures("warm_cache")
def test_a_second_evaluation_reads_what_the_first_computed(
    folders: dict[str, Path], options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(from_folders(*folders.values()), options)
    monkeypatch.setattr("mast.metrics.inception.InceptionEncoder.maps", None)  # computing would now fail
    monkeypatch.setattr("mast.metrics.lpips.Lpips.__call__", None)
    again = evaluate(from_folders(*folders.values()), options)
    assert {**again.to_dict(), "seconds": 0} == {**first.to_dict(), "seconds": 0}


def test_without_a_cache_nothing_is_left(
    folders: dict[str, Path],
    options: Options,
    own_cache: Path,
    warm_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = from_folders(*folders.values())
    del found.samples[2:]
    report = evaluate(found, replace(options, cache=False, batch=1))
    assert not (own_cache / "metrics").exists()
    monkeypatch.setenv("MAST_CACHE", str(warm_folder))
    kept = evaluate(found, options)
    assert report.fid == pytest.approx(kept.fid, rel=1e-3) and report.rfid == pytest.approx(
        kept.rfid, rel=1e-3
    )


@pytest.mark.usefixtures("warm_cache")
def test_the_pieces_give_the_same_numbers(folders: dict[str, Path], options: Options) -> None:
    """FID, LPIPS and ArtFID put together by hand, with each style as often as it is assigned."""
    found = from_folders(*folders.values())
    del found.samples[2:]
    report = evaluate(found, options)
    encoder = load_inception("fid", options.inception_weights)
    lpips = load_lpips("alex", options.lpips_weights)
    results = [sample.stylized for sample in found.samples]
    styles = [Path(str(region.style)) for sample in found.samples for region in sample.regions]
    maps = [[encoder.maps([to_levels(Image.open(path))]) for path in paths] for paths in (results, styles)]
    frechet = fid(*(statistics([torch.cat(each).mean(1)]) for each in maps))
    pairs = [read_pair(sample) for sample in found.samples]
    distance = np.mean([float(lpips.of_levels(a[None], b[None])) for a, b in pairs])
    assert report.fid == pytest.approx(frechet, rel=1e-3)
    assert report.lpips == pytest.approx(distance, rel=1e-3)
    assert report.artfid == pytest.approx(artfid(frechet, distance), rel=1e-3)


@pytest.mark.usefixtures("warm_cache")
def test_enough_pictures_have_intervals(
    folders: dict[str, Path], options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By picture, seeded, for the means over pictures and over pairs; the FIDs have none."""
    monkeypatch.setattr("mast.metrics.measure.FEWEST", 3)
    report = evaluate(from_folders(*folders.values()), options)
    assert set(report.intervals) == {"lpips", "ssim", "cosine", "rkid"} and FEW not in report.notes
    for name in ("lpips", "ssim", "cosine"):
        each = torch.tensor([row[name] for row in report.samples])
        assert report.intervals[name] == pytest.approx(interval_of_mean(each, 0))
    low, high = report.intervals["rkid"]
    assert low < report.rkid < high
    assert evaluate(from_folders(*folders.values()), options).intervals == report.intervals
    written = report.to_dict()
    assert json.loads(json.dumps(written))["intervals"]["lpips"] == list(report.intervals["lpips"])


@pytest.mark.parametrize(
    ("n", "regions", "enough"),
    [(2047, 4094, {"rfid", "mfid"}), (2048, 4096, {"artfid", "fid", "rfid", "mfid"})],
)
def test_frechet_distances_are_ranked_from_2048_samples(n: int, regions: int, enough: set[str]) -> None:
    numbers = dict.fromkeys(METRICS, 1.0)
    found = Evaluation(n, regions, 9, **numbers, intervals={"lpips": (0.9, 1.1), "rkid": (0.9, 1.1)})
    estimates = {name: found.estimate(metric) for name, metric in METRICS.items()}
    assert {name for name, e in estimates.items() if METRICS[name].frechet and e.enough} == enough
    assert {name for name, e in estimates.items() if e.interval} == {"lpips", "rkid"}
    few_styles = Evaluation(5000, 0, 40, fid=1.0)  # a set of styles is a sample too
    assert not few_styles.estimate(METRICS["fid"]).enough


def test_the_table_says_how_sure_each_number_is() -> None:
    found = Evaluation(
        30, 60, 5, fid=300.0, lpips=0.5, cosine=0.48, rkid=0.1, rkid_std=0.002, rfid=400.0, rfid_std=3.0
    )
    found.intervals = {"cosine": (0.471, 0.492), "rkid": (0.09, 0.11)}
    found.networks = {"inception": "fid 0123", "lpips": "alex 4567"}
    table = found.table()
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in table.rows}
    assert rows["R-KID"] == ["0.1000", "0.0900 to 0.1100", "60 regions", "± 0.0020 over the draws"]
    assert rows["cosine"][1] == "0.471 to 0.492"
    assert rows["FID"][1:3] == ["too few (below 2,048)", "30 results"]
    assert rows["LPIPS"][1] == "too few (below 20)"
    assert rows["ArtFID"] == ["-", "-", "30 results", ""] and "CFSD" not in rows
    assert table.caption.startswith("30 results, 60 regions, 5 styles. Inception fid 0123; LPIPS alex 4567; ")
    (piece,) = terminal(table, 80)
    assert Console(width=80).measure(piece).maximum <= 80


@pytest.mark.usefixtures("warm_cache")
def test_styles_as_a_set_give_no_regional_numbers(
    folders: dict[str, Path], options: Options, tmp_path: Path
) -> None:
    for i in range(3):
        picture(50, 70, 20 + i).save(tmp_path / f"style {i}.png")
    report = evaluate(from_folders(folders["stylized"], folders["content"], tmp_path), options)
    assert report.fid is not None and report.rfid is None and report.n_styles == 3
    assert report.rkid is None and report.cosine is None and report.samples[0]["cosine"] is None
    assert any("R-FID, M-FID and R-KID need" in note for note in report.notes)


@pytest.mark.usefixtures("warm_cache")
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


@pytest.mark.usefixtures("warm_cache")
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
    folders: dict[str, Path],
    options: Options,
    own_cache: Path,
    warm_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = from_folders(*folders.values())
    del found.samples[2:]
    with monkeypatch.context() as warm:
        warm.setenv("MAST_CACHE", str(warm_folder))
        full = evaluate(found, options)
    monkeypatch.setenv("MAST_CACHE_LIMIT", "1M")  # a map has half a megabyte
    small = evaluate(found, options)
    assert small.rfid == pytest.approx(full.rfid, rel=1e-3) and small.fid == pytest.approx(full.fid, rel=1e-3)


@pytest.mark.parametrize(
    ("result", "photo", "says"),
    [
        ((64, 64), (96, 64), "another shape than its photo"),
        ((64, 24), (64, 24), r"a\.png: 64x24 is too small"),
    ],
)
def test_pictures_that_cannot_be_compared_are_problems(
    result: tuple[int, int], photo: tuple[int, int], says: str, tmp_path: Path
) -> None:
    picture(*result).save(tmp_path / "a.png")
    picture(*photo).save(tmp_path / "photo.png")
    sample = EvaluatedPicture("a", tmp_path / "a.png", tmp_path / "photo.png")
    with Store() as store:
        assert store.distances("ssim", ssim, [sample], None, lambda *step: None) == {}
        assert list(store.problems) == ["a"] and re.search(says, store.problems["a"])


def test_a_square_result_is_compared_with_squares(
    tmp_path: Path, random_inception: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made from the centre squares of photo, masks and styles is measured against those."""
    photo, style = picture(96, 64, 1), picture(64, 128, 2)
    photo.crop((16, 0, 80, 64)).resize((48, 48), Image.Resampling.LANCZOS).save(tmp_path / "result.png")
    photo.save(tmp_path / "photo.png")
    style.save(tmp_path / "style.png")
    mask = np.zeros((64, 96), np.uint8)
    mask[:, :32] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    region = Region(str(tmp_path / "style.png"), str(tmp_path / "mask.png"))
    sample = EvaluatedPicture("a", tmp_path / "result.png", tmp_path / "photo.png", (region,), square=True)
    result, seen = read_pair(sample)
    assert torch.equal(result, seen), "the photo's square, fitted as the run fitted it"
    encoder, shapes = load_inception("fid", random_inception), []

    def maps(images: list[torch.Tensor]) -> torch.Tensor:
        shapes.extend(tuple(image.shape) for image in images)
        return torch.zeros(len(images), 64, 2048)

    monkeypatch.setattr(encoder, "maps", maps)
    with Store() as store:
        assert store.distances("ssim", ssim, [sample], None, lambda *step: None)["a"] == pytest.approx(1)
        weights = store.weights(sample, (1, 4), [])
        assert weights.tolist() == [[1, 0, 0, 0]], "a quarter of the square"
        assert store.weights(replace(sample, square=False), (1, 3), []).tolist() == [[1, 0, 0]]
        store.extract(encoder, [Looked(sample.stylized), *sample.styles], lambda *step: None)
    assert shapes == [(3, 48, 48), (3, 64, 64)], "the style's square, too"


def test_files_of_the_same_bytes_are_encoded_once(
    folders: dict[str, Path], tmp_path: Path, random_inception: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [tmp_path / f"{i}.png" for i in range(3)]
    for path in copies:
        path.write_bytes((folders["stylized"] / "0.png").read_bytes())
    encoder, seen = load_inception("fid", random_inception), []

    def maps(images: list[torch.Tensor]) -> torch.Tensor:
        seen.extend(images)
        return torch.zeros(len(images), 64, 2048)

    monkeypatch.setattr(encoder, "maps", maps)
    with Store() as store:
        store.extract(encoder, list(map(Looked, copies)), lambda *step: None)
        assert len(seen) == 1
        assert store.map(encoder, Looked(copies[2])).shape == (64, 2048)


def test_bad_options_are_explained() -> None:
    for wrong in ({"inception": "vgg"}, {"repeats": 0}, {"size": 10}, {"seed": -1}):
        with pytest.raises(InputError):
            Options(**wrong)


def test_the_store_names_files_by_content(
    folders: dict[str, Path], tmp_path: Path, random_inception: Path
) -> None:
    copy = tmp_path / "other-name.png"
    copy.write_bytes((folders["stylized"] / "0.png").read_bytes())
    encoder = load_inception("fid", random_inception)
    with Store() as store:
        first = Looked(folders["stylized"] / "0.png")
        assert store._map_key(encoder, Looked(copy)) == store._map_key(encoder, first)
        other = load_inception("pytorch-fid", random_inception)
        assert store._map_key(other, Looked(copy)) != store._map_key(encoder, Looked(copy))
        assert store._map_key(encoder, Looked(copy, True)) != store._map_key(encoder, Looked(copy))


@pytest.mark.usefixtures("warm_cache")
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
    for name in ("lpips", "cosine"):
        assert float(rows[0][name]) == pytest.approx(written["samples"][0][name])
    assert {"rkid", "rkid_std", "rfid_mean_term", "rfid_trace_term", "region_variance"} <= written.keys()
    printed = json.loads(run(app, ["eval", *given, "--json"]).stdout)
    for name in ("fid", "lpips", "artfid", "rfid", "mfid", "rkid", "cosine", "n"):
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

    for name, fit in (("a", "resize"), ("b", "square")):
        stylize(job, tiny_backbone, "mast", quick.with_(fit=fit)).save(tmp_path / f"{name}.png")
    found = from_results(tmp_path)
    assert [sample.square for sample in found.samples] == [False, True]
    report = evaluate(found, options)
    assert (report.n, report.n_regions, report.n_styles) == (2, 4, 2)
    assert report.rfid is not None and np.isfinite(report.rfid)
    assert torch.isfinite(torch.tensor(report.artfid))
