"""The tables: the paper's own numbers give the paper's choices and correlations; unequal rows never meet."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.bench.data.make import make
from mast.bench.data.manifest import Manifest
from mast.bench.report.publish import NO_PLOT, check_stem, save
from mast.bench.report.ranking import marks, overlap, ranked_cells, ranks, spearman
from mast.bench.report.report import BenchReport, build
from mast.bench.report.results import read_runs
from mast.job import InputError
from mast.metrics import METRICS, Collection, Estimate, Evaluation, Options, evaluate
from mast.metrics.evaluation import BIASED
from mast.regions.sources import LabelSource, pictures
from tests.metrics.conftest import random_inception, random_lpips  # noqa: F401  (fixtures)
from tests.tiny import picture

# Table 1 of the paper: ArtFID, FID, LPIPS, R-FID for N = 2..5.
PAPER = {
    "zstar": (
        [17.215, 17.009, 17.253, 16.926],
        [10.865, 10.745, 10.876, 10.664],
        [0.451, 0.448, 0.453, 0.451],
        [13.153, 16.693, 21.566, 23.062],
    ),
    "styleid": (
        [16.635, 16.819, 16.995, 16.927],
        [10.323, 10.451, 10.643, 10.383],
        [0.469, 0.469, 0.460, 0.487],
        [13.685, 17.956, 25.562, 26.523],
    ),
    "cocodiff": (
        [16.870, 17.217, 17.345, 17.308],
        [10.400, 10.633, 10.555, 10.455],
        [0.480, 0.480, 0.501, 0.511],
        [13.680, 18.219, 26.322, 27.152],
    ),
    "anytoany": (
        [15.664, 16.086, 16.311, 16.238],
        [9.090, 9.379, 9.498, 9.418],
        [0.552, 0.550, 0.554, 0.559],
        [10.691, 16.390, 19.751, 20.826],
    ),
    "bpc": (
        [25.631, 26.015, 26.311, 25.384],
        [16.332, 16.726, 17.057, 15.346],
        [0.479, 0.468, 0.457, 0.553],
        [20.614, 24.709, 27.718, 34.020],
    ),
    "stylemixer": (
        [16.332, 16.692, 16.978, 16.903],
        [9.379, 9.611, 9.828, 9.742],
        [0.574, 0.573, 0.568, 0.574],
        [11.699, 16.054, 20.068, 20.993],
    ),
    "stylegallery": (
        [18.111, 19.966, 20.962, 20.588],
        [11.748, 13.539, 14.474, 14.402],
        [0.421, 0.373, 0.355, 0.337],
        [17.658, 24.866, 36.256, 39.409],
    ),
    "mast": (
        [14.780, 14.802, 15.014, 15.117],
        [8.656, 8.700, 8.905, 8.929],
        [0.531, 0.526, 0.516, 0.522],
        [11.260, 14.219, 18.797, 20.883],
    ),
}
MFID = [17.073, 27.735, 35.915, 41.007]  # of MAST
CORRELATION = {
    "artfid": [0.881, 0.929, 0.952, 0.952],
    "fid": [0.881, 0.881, 0.881, 0.881],
    "lpips": [-0.690, -0.762, -0.738, -0.571],
}
COMPOSITING = {  # ArtFID of StyleID, by compositor
    "hard": [16.866, 17.141, 17.072, 17.009],
    "alpha": [16.935, 17.222, 17.371, 17.224],
    "poisson": [16.949, 16.938, 17.065, 16.927],
    "laplacian": [16.635, 16.819, 16.995, 17.175],
}
NUMBERS = (2, 3, 4, 5)
SWITCHED = {"lam": 0.2, "pi": 0.9, "r": 0.3, "tau": None, "mass_floor": 0.0}


# ------------------------------------------------------------------------------------------------ ranks


def test_the_papers_correlations_come_out_of_the_papers_table() -> None:
    for i, _ in enumerate(NUMBERS):
        regional = [row[3][i] for row in PAPER.values()]
        for place, metric in enumerate(CORRELATION):
            value = spearman(regional, [row[place][i] for row in PAPER.values()])
            assert value == pytest.approx(CORRELATION[metric][i], abs=6e-4), (metric, i)


def test_spearman_of_known_values() -> None:
    assert spearman([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]) == pytest.approx(0.8207826816681233)
    assert spearman(
        [106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    ) == (pytest.approx(-29 / 165))
    assert spearman([1, 2, 3], [30, 20, 10]) == -1
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 2, 3], [4, 4, 4]) is None
    assert ranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]
    with pytest.raises(ValueError):
        spearman([1, 2, 3], [1, 2])


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=12))
def test_spearman_sees_order_alone(pairs: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    value = spearman(a, b)
    assert value == spearman(b, a)
    if value is None:
        assert len(set(a)) == 1 or len(set(b)) == 1
        return
    assert -1 <= value <= 1
    assert spearman([x**3 + 2 for x in a], b) == pytest.approx(value)
    assert spearman([-x for x in a], b) == pytest.approx(-value)
    assert np.corrcoef(ranks(a), ranks(b))[0, 1] == pytest.approx(value)


def points(*values: float | None) -> list[Estimate | None]:
    return [None if value is None else Estimate(value) for value in values]


def test_marks() -> None:
    assert marks(points(3.0, 1.0, None, 2.0)) == ["", "best", "", "second"]
    assert marks(points(3.0, 1.0, None, 2.0), higher=True) == ["best", "", "", "second"]
    assert marks(points(1.0001, 1.0002, 2.0)) == ["best", "best", "second"]  # they print alike
    assert marks(points(1.0, None)) == ["", ""]


def test_no_mark_where_intervals_overlap() -> None:
    def three(*ends: tuple[float, float]) -> list[str]:
        return marks([Estimate(sum(interval) / 2, interval) for interval in ends])

    assert three((1, 2), (3, 4), (5, 6)) == ["best", "second", ""]
    assert three((1, 3.5), (3, 4), (5, 6)) == ["", "", ""]  # and without a best there is no second
    assert three((1, 2), (3, 5.5), (5, 6)) == ["best", "", ""]
    assert three((1, 9), (3, 4), (5, 6)) == ["", "", ""]  # whoever is in doubt, nobody is ahead of it
    assert marks([Estimate(1.5, (1, 2)), Estimate(2.0), Estimate(3.0)]) == ["", "", ""]


intervals = st.tuples(st.floats(0, 10), st.floats(0, 10), st.booleans()).map(
    lambda ends: Estimate(sum(ends[:2]) / 2, (min(ends[:2]), max(ends[:2])) if ends[2] else None)
)


@given(st.lists(st.none() | intervals, max_size=8), st.booleans())
def test_marks_are_never_given_where_intervals_overlap(rows: list[Estimate | None], higher: bool) -> None:
    given_marks = marks(rows, higher)
    known = [row for row in rows if row is not None]
    for i, (row, mark) in enumerate(zip(rows, given_marks, strict=True)):
        if not mark:
            continue
        assert row is not None
        assert not any(overlap(row, other) for j, other in enumerate(rows) if j != i and other is not None)
        ahead = [e for e in known if (e.value > row.value if higher else e.value < row.value)]
        assert all(round(e.value, 3) == round(row.value, 3) for e in ahead) or mark == "second"
    assert ("second" not in given_marks) or ("best" in given_marks)


def test_too_few_samples_are_printed_but_not_ranked() -> None:
    few, enough = Estimate(1.0, None, False), Estimate(2.0, (1.9, 2.1))
    cells = ranked_cells(METRICS["lpips"], [few, enough, Estimate(3.0, (2.9, 3.1)), None])
    assert [(cell.text, cell.mark) for cell in cells] == [
        *(("1.000", ""), ("2.000", "best"), ("3.000", "second")),
        ("-", ""),
    ]
    kept_out = ranked_cells(METRICS["cosine"], [enough, Estimate(3.0, (2.9, 3.1)), few], [True, False, True])
    assert [cell.mark for cell in kept_out] == ["", "", ""]


# ------------------------------------------------------------------------------------------------ run folders


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Two photos, ten styles, N = 2 to 5: 10, 6, 4 and 4 samples."""
    photos, labels, styles = (tmp_path / name for name in ("photos", "labels", "styles"))
    for folder in (photos, labels, styles):
        folder.mkdir()
    for i in range(2):
        picture(64, 64, i).save(photos / f"p{i}.png")
        bands = np.repeat(np.arange(64, dtype=np.uint8) // 13, 64).reshape(64, 64)
        Image.fromarray(bands).save(labels / f"p{i}.png")
    for i in range(10):
        picture(48, 48, 50 + i).save(styles / f"s{i}.png")
    return make(tmp_path / "bench", pictures(photos), pictures(styles), LabelSource(labels), NUMBERS)


@pytest.fixture
def variant(tmp_path: Path, manifest: Manifest) -> Callable[..., Path]:
    """Writes what a run leaves: run.json, and a picture with its record for every sample."""

    def call(
        name: str, method: dict[str, Any] | None = None, composite: str | None = None, **more: Any
    ) -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        facts = {
            "manifest": {"path": str(manifest.path), "sha256": manifest.sha256},
            "variant": name,
            "method": method or {"name": name},
            "composite": composite,
            "settings": {"size": 64, "steps": 3},
            "model": {"name": "tiny", "fingerprint": "abc"},
            **more,
        }
        (folder / "run.json").write_text(json.dumps(facts))
        for i, sample in enumerate(manifest.samples):
            hashes = [{"sha256": file.sha256} for file in sample.files()]
            regions = [{"mask": hashes[k], "style": hashes[k + 1]} for k in range(1, len(hashes), 2)]
            picture(64, 64, 1000 + i + len(name)).save(folder / f"{sample.id}.png")
            record = {"content": hashes[0], "regions": regions, "settings": {}, "method": {}}
            (folder / f"{sample.id}.json").write_text(json.dumps(record))
        return folder

    return call


Numbers = dict[tuple[str, int], tuple[float, float, float, float]]


def measured(
    numbers: Numbers, seen: dict[str, list[str]] | None = None, pictures: int | None = None
) -> Callable[[str, Collection], Evaluation]:
    """Known numbers instead of networks: what is tested here is what becomes of them.

    pictures: over how many they pretend to be; else over those of the collection.
    """

    def measure(what: str, found: Collection) -> Evaluation:
        name, _, n = what.partition(", N = ")
        if seen is not None:
            seen[what] = [sample.name for sample in found.samples]
        artfid, fid, lpips, rfid = numbers.get((name, int(n)), (9.0, 8.0, 0.5, 7.0))
        nets = {"inception": "fid 0123", "lpips": "alex 4567"}
        return Evaluation(
            n=pictures or len(found.samples),
            n_regions=int(n) * (pictures or len(found.samples)),
            n_styles=1,
            artfid=artfid,
            fid=fid,
            lpips=lpips,
            rfid=rfid,
            mfid=MFID[int(n) - 2],
            rkid=rfid / 100,
            cosine=1 - lpips,
            intervals={
                "lpips": (lpips - 1e-4, lpips + 1e-4),
                "rkid": (rfid / 100 - 0.02, rfid / 100 + 0.02),
                "cosine": (1 - lpips - 1e-4, 1 - lpips + 1e-4),
            },
            networks=nets,
            notes=["a note of the metrics"],
        )

    return measure


def paper_numbers() -> Numbers:
    return {
        (name, n): tuple(row[k][i] for k in range(4))  # type: ignore[misc]
        for name, row in PAPER.items()
        for i, n in enumerate(NUMBERS)
    }


def report_of(
    root: Path,
    measure: Callable[[str, Collection], Evaluation],
    variants: Sequence[str] = (),
    everything: bool = False,
) -> BenchReport:
    manifest, runs = read_runs(root / "runs", None, variants)
    return build(manifest, runs, measure, everything)


def cells(report: BenchReport, name: str) -> dict[tuple[str, ...], list[tuple[str, str]]]:
    (table,) = [table for table in report.tables if table.name == name]
    return {row.labels: [(cell.text, cell.mark) for cell in row.cells] for row in table.rows}


def test_the_papers_comparison(tmp_path: Path, variant: Callable[..., Path]) -> None:
    for name in PAPER:
        variant(name, {"name": "unheard-of"} if name == "bpc" else None)
    report = report_of(tmp_path, measured(paper_numbers(), pictures=3600))
    rows = cells(report, "comparison")
    names = [labels[1] for labels in rows]
    assert names.index("styleid") < names.index("mast") and ("-", "bpc") in rows
    mast = rows["R-M", "mast"]
    assert mast[:5] == [
        ("14.780", "best"),
        ("14.802", "best"),
        ("15.014", "best"),
        ("15.117", "best"),
        ("14.928", "best"),
    ]
    assert [mark for _, mark in mast[15:20]] == ["second", "best", "best", "second", "best"]
    galleries = next(row for labels, row in rows.items() if labels[1] == "stylegallery")
    assert [mark for _, mark in galleries[10:15]] == ["best"] * 5
    assert galleries[4] == ("19.907", "")
    table = report.tables[0]
    assert "n = 3600 for N = 2; n = 3600 for N = 3" in table.caption and "too few" not in table.caption
    assert "Inception: fid 0123" in table.caption and "LPIPS: alex 4567" in table.caption
    assert [group.title for group in table.groups] == [
        *("ArtFID ↓", "FID ↓", "LPIPS ↓", "R-FID ↓"),
        *("R-KID ↓", "cosine ↑"),
    ]
    # R-KID's intervals are wide enough to meet their neighbours', the cosine's are not.
    assert {mark for row in rows.values() for _, mark in row[20:25]} == {""}
    assert [mark for _, mark in galleries[25:]] == ["best"] * 5
    spearmans = cells(report, "spearman")
    assert [text for text, _ in spearmans["ArtFID",][:4]] == ["0.881", "0.929", "0.952", "0.952"]
    assert [text for text, _ in spearmans["LPIPS",][:4]] == ["-0.690", "-0.762", "-0.738", "-0.571"]
    support = cells(report, "support")["mast",]
    assert [text for text, _ in support] == [
        *("17.073", "27.735", "35.915", "41.007", "23.934"),
        *("11.260", "14.219", "18.797", "20.883", "9.623"),
    ]
    assert report.notes.count("a note of the metrics") == 1


def test_few_pictures_are_reported_but_no_fid_is_ranked(tmp_path: Path, variant: Callable[..., Path]) -> None:
    """Table 1's numbers over 10 pictures and fewer: LPIPS may be ranked by its intervals, ArtFID not."""
    for name in PAPER:
        variant(name)
    report = report_of(tmp_path, measured(paper_numbers()))
    table = report.tables[0]
    for row in table.rows:
        assert {cell.mark for cell in (*row.cells[:10], *row.cells[15:20])} == {""}
        assert row.cells[0].text != "-"
    assert "n = 10 for N = 2; n = 6 for N = 3; n = 4 for N = 4; n = 4 for N = 5" in table.caption
    assert "Not ranked, for n below 2,048 is too few: ArtFID, FID, R-FID." in table.caption
    galleries = next(
        row for labels, row in cells(report, "comparison").items() if labels[1] == "stylegallery"
    )
    assert [mark for _, mark in galleries[10:15]] == ["best"] * 5
    intervals = cells(report, "intervals")["mast",]
    assert [text for text, _ in intervals[:2]] == ["0.531 to 0.531", "0.526 to 0.526"]
    assert intervals[4][0] == "0.0926 to 0.1326"


def test_below_twenty_pictures_nothing_is_ranked(tmp_path: Path, variant: Callable[..., Path]) -> None:
    known = measured(paper_numbers())

    def measure(what: str, found: Collection) -> Evaluation:
        evaluation = known(what, found)
        if evaluation.n < 10:
            evaluation.intervals = {}
        return evaluation

    for name in ("styleid", "mast"):
        variant(name)
    report = report_of(tmp_path, measure)
    caption = report.tables[0].caption
    assert "for n below 20 is too few: LPIPS, R-KID, cosine at N = 3, 4, 5." in caption
    marked = {
        labels[1]: [mark for _, mark in row[10:15]] for labels, row in cells(report, "comparison").items()
    }
    assert marked == {
        "styleid": ["best", "", "", "", ""],
        "mast": ["second", "", "", "", ""],
    }  # nor on average
    assert cells(report, "intervals")["mast",][1] == ("too few (below 20)", "")


def test_the_average_has_the_mean_interval(tmp_path: Path, variant: Callable[..., Path]) -> None:
    variant("mast")
    (row,) = report_of(tmp_path, measured(paper_numbers())).rows
    average = row.average(METRICS["rkid"], NUMBERS)
    means = [np.mean([row.estimate(METRICS["rkid"], n).interval[end] for n in NUMBERS]) for end in (0, 1)]
    assert average.interval == pytest.approx(means)
    assert average.value == pytest.approx(np.mean(PAPER["mast"][3]) / 100) and average.enough
    assert row.average(METRICS["fid"], NUMBERS).interval is None
    assert row.average(METRICS["fid"], (2, 9)) is None  # the others are no substitute


def test_the_compositor_is_chosen_per_method_and_n(tmp_path: Path, variant: Callable[..., Path]) -> None:
    numbers: Numbers = {}
    for strategy, row in COMPOSITING.items():
        variant(f"styleid-{strategy}", {"name": "styleid"}, strategy)
        for i, n in enumerate(NUMBERS):
            numbers[f"styleid-{strategy}", n] = (row[i], 10.0 + i, 0.4, 20.0)
    variant("mast", {"name": "mast"})
    variant("mast-hard", {"name": "mast", "lam": 1})  # a name of one's own: mast joins nothing
    report = report_of(tmp_path, measured(numbers))
    table = cells(report, "compositing")
    assert list(table) == [("styleid", s) for s in ("hard", "alpha", "poisson", "laplacian")]
    chosen = [
        next(labels[1] for labels, row in table.items() if row[i][1] == "best") for i, _ in enumerate(NUMBERS)
    ]
    assert chosen == ["laplacian", "laplacian", "laplacian", "poisson"]
    comparison = cells(report, "comparison")
    assert set(comparison) == {("G-S", "styleid"), ("R-M", "mast"), ("R-M", "mast-hard")}
    shown = [text for text, _ in comparison["G-S", "styleid"][:5]]
    assert shown == ["16.635", "16.819", "16.995", "16.927", "16.844"]
    data = report.to_dict()["rows"]
    assert data[0]["composite"] == {"2": "laplacian", "3": "laplacian", "4": "laplacian", "5": "poisson"}


def without_artfid(numbers: Numbers, *names: str) -> Callable[[str, Collection], Evaluation]:
    """Known numbers, but no ArtFID of some variants."""
    known = measured(numbers)

    def measure(what: str, found: Collection) -> Evaluation:
        report = known(what, found)
        if what.partition(",")[0] in names:
            report.artfid = None
        return report

    return measure


def test_no_compositor_is_chosen_where_no_artfid_could_be_computed(
    tmp_path: Path, variant: Callable[..., Path]
) -> None:
    for strategy in ("hard", "alpha", "poisson", "laplacian"):
        variant(f"styleid-{strategy}", {"name": "styleid"}, strategy)
    variant("mast")
    names = [f"styleid-{strategy}" for strategy in ("hard", "alpha", "poisson", "laplacian")]
    report = report_of(tmp_path, without_artfid({}, *names))
    assert report.to_dict()["rows"][0] == {"method": "styleid", "variants": {}, "composite": {}}
    assert {text for text, _ in cells(report, "comparison")["G-S", "styleid"]} == {"-"}
    assert all(mark == "" for row in cells(report, "compositing").values() for _, mark in row)
    said = "N = 2: no ArtFID of styleid could be computed, so none of its compositors is chosen"
    assert said in report.notes and len([note for note in report.notes if "no ArtFID" in note]) == 4
    report = report_of(tmp_path, without_artfid({}, *names[:3]))
    assert report.to_dict()["rows"][0]["composite"] == {str(n): "laplacian" for n in NUMBERS}
    said = "N = 2: hard and alpha and poisson of styleid had no ArtFID to be chosen by"
    assert said in report.notes, report.notes


@pytest.mark.parametrize("run", [("alpha",), ("hard", "alpha", "laplacian")])
def test_a_compositor_that_was_not_run_is_named(
    tmp_path: Path, variant: Callable[..., Path], run: tuple[str, ...]
) -> None:
    for strategy in run:
        variant(f"zstar-{strategy}", {"name": "zstar"}, strategy)
    variant("mast")
    report = report_of(tmp_path, measured({}))
    (note,) = [note for note in report.notes if note.startswith("zstar: not joined by")]
    assert "poisson" in note and "--composite all" in note and ("hard" in note) == ("hard" not in run)
    assert set(report.to_dict()["rows"][0]["composite"].values()) <= set(run), "one is shown all the same"


def test_the_papers_protocol_asks_for_the_papers_inception(
    tmp_path: Path, variant: Callable[..., Path]
) -> None:
    variant("mast", protocol="paper")
    (note,) = [n for n in report_of(tmp_path, measured({})).notes if "the paper's protocol" in n]
    assert "fid 0123" in note and "art-inception" in note

    def on_the_papers_scale(what: str, found: Collection) -> Evaluation:
        report = measured({})(what, found)
        report.networks["inception"] = "artfid 89ab"
        return report

    assert not [n for n in report_of(tmp_path, on_the_papers_scale).notes if "the paper's protocol" in n]
    variant("shared")
    assert [n for n in report_of(tmp_path, measured({}), ["shared"]).notes if "protocol" in n] == []


def test_squares_are_measured_as_squares(tmp_path: Path, variant: Callable[..., Path]) -> None:
    variant("mast", settings={"size": 64, "steps": 3, "fit": "square"})
    variant("shared")
    square: dict[str, set[bool]] = {}

    def measure(what: str, found: Collection) -> Evaluation:
        square.setdefault(what.partition(",")[0], set()).update(sample.square for sample in found.samples)
        return measured({})(what, found)

    report = report_of(tmp_path, measure)
    assert square == {"mast": {True}, "shared": {False}}
    assert any("variants differ in fit (square: mast; None: shared)" in note for note in report.notes)


def test_the_ablation_is_known_by_its_switches(tmp_path: Path, variant: Callable[..., Path]) -> None:
    on = {"lama": True, "sts": True, "ddi": True}
    rows = {
        "shared": {"name": "shared", **SWITCHED, "lama": False, "sts": False, "ddi": False},
        "first": {"name": "mast", **SWITCHED, **on, "sts": False, "ddi": False},
        "second": {"name": "mast", **SWITCHED, **on, "ddi": False, "tau": 1.5},
        "mast": {"name": "mast", **SWITCHED, **on, "tau": 1.5},
        "mast-lam0.9": {"name": "mast", **SWITCHED, **on, "lam": 0.9, "tau": 1.5},
    }
    for name, method in rows.items():
        variant(name, method)
    ablation = {  # Table 3
        ("shared", 2): (30.549, 24.134, 0.216, 33.930),
        ("first", 2): (16.680, 9.665, 0.564, 13.276),
        ("second", 2): (14.769, 8.495, 0.555, 10.803),
        ("mast", 2): (14.780, 8.656, 0.531, 11.260),
    }
    report = report_of(tmp_path, measured(ablation, pictures=3600))
    table = cells(report, "ablation")
    assert list(table) == [
        ("", "", "", "shared"),
        ("✓", "", "", "first"),
        ("✓", "✓", "", "second"),
        ("✓", "✓", "✓", "mast"),
    ]
    at_two = {labels[3]: [row[5 * k] for k in range(4)] for labels, row in table.items()}
    assert [mark for _, mark in at_two["shared"]] == [""] * 4  # the base is not ranked
    assert [mark for _, mark in at_two["second"]] == ["best", "best", "second", "best"]
    assert [mark for _, mark in at_two["mast"]] == ["second", "second", "best", "second"]
    compared = {labels[1] for labels in cells(report, "comparison")}
    assert compared == {"shared", "mast", "mast-lam0.9"}
    assert any("first and second stand in the ablation only" in note for note in report.notes)


def test_rows_are_compared_on_the_samples_they_share(
    tmp_path: Path, manifest: Manifest, variant: Callable[..., Path]
) -> None:
    variant("mast")
    short = variant("shared")
    twos = [s.id for s in manifest.of(2)]
    for name in twos[:3]:
        (short / f"{name}.png").unlink()
    for sample in manifest.of(5):
        (short / f"{sample.id}.png").unlink()
    seen: dict[str, list[str]] = {}
    numbers: Numbers = {("shared", n): (9.0, 8.0, 0.4, 7.0) for n in NUMBERS}
    report = report_of(tmp_path, measured(numbers, seen))
    assert seen["mast, N = 2"] == seen["shared, N = 2"] == twos[3:]
    assert "shared, N = 5" not in seen and len(seen["mast, N = 5"]) == 4
    note = "N = 2: compared on the 7 samples that all variants have (mast 10, shared 7 of 10)"
    assert note in report.notes and "N = 5: shared has no sample yet" in report.notes
    shared = cells(report, "comparison")["R-M", "shared"]
    assert shared[3] == ("-", "") and shared[4] == ("-", "")  # no number, and so no average
    assert shared[10] == ("0.400", "best")

    every = report_of(tmp_path, measured(numbers, seen), everything=True)
    assert len(seen["mast, N = 2"]) == 10 and len(seen["shared, N = 2"]) == 7
    rows = cells(every, "comparison")
    assert rows["R-M", "shared"][10] == ("0.400", "")  # over different samples nothing is best
    assert rows["R-M", "shared"][11] == ("0.400", "best")
    assert [text for text, _ in rows["R-M", "shared"][-4:]] == ["7", "6", "4", "-"]
    assert any("not comparable" in note for note in every.notes)


def test_failures_are_listed_until_they_are_made(
    tmp_path: Path, manifest: Manifest, variant: Callable[..., Path]
) -> None:
    folder = variant("mast")
    first, second = (s.id for s in manifest.samples[:2])
    lines = [{"id": id, "reason": "out of [memory]", "attempt": 1} for id in (first, second)]
    (folder / "failed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / f"{first}.png").unlink()
    report = report_of(tmp_path, measured({}))
    assert report.failures == {"mast": {first: "out of [memory]"}}
    assert "N = 2: 9 of 10 samples are made" in report.notes


def test_settings_and_models_that_differ_are_said(tmp_path: Path, variant: Callable[..., Path]) -> None:
    variant("mast")
    variant("shared", settings={"size": 128, "steps": 3}, model={"fingerprint": "other"})
    notes = report_of(tmp_path, measured({})).notes
    assert "variants differ in size (64: mast; 128: shared)" in notes
    assert "variants differ in model (abc: mast; other: shared)" in notes


# ------------------------------------------------------------------------------------------------ refusals


def test_variants_of_different_benchmarks_never_meet(tmp_path: Path, variant: Callable[..., Path]) -> None:
    variant("mast")
    other = variant("shared")
    facts = json.loads((other / "run.json").read_text())
    facts["manifest"]["sha256"] = "f" * 64
    (other / "run.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="different manifests"):
        read_runs(tmp_path / "runs")
    assert len(read_runs(tmp_path / "runs", variants=["mast"])[1]) == 1
    with pytest.raises(InputError, match="not the manifest these variants"):
        read_runs(tmp_path / "runs", variants=["shared"])
    with pytest.raises(InputError, match="no variant is called 'best'; there are mast, shared"):
        read_runs(tmp_path / "runs", variants=["best"])


def test_a_manifest_that_moved_is_asked_for(
    tmp_path: Path, manifest: Manifest, variant: Callable[..., Path]
) -> None:
    variant("mast")
    moved = manifest.path.parent.rename(tmp_path / "moved") / "manifest.jsonl"
    with pytest.raises(InputError, match="--manifest"):
        read_runs(tmp_path / "runs")
    assert read_runs(tmp_path / "runs", moved)[0].path == moved
    (tmp_path / "runs" / "mast" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: cannot be read"):
        read_runs(tmp_path / "runs", moved)
    with pytest.raises(InputError, match="no variant in it"):
        read_runs(moved.parent)
    with pytest.raises(InputError, match="no such folder"):
        read_runs(tmp_path / "nowhere")


def test_pictures_made_from_other_files_are_named(
    tmp_path: Path, manifest: Manifest, variant: Callable[..., Path]
) -> None:
    folder = variant("mast")
    first, second, third = (folder / f"{s.id}.json" for s in manifest.samples[:3])
    record = json.loads(first.read_text())
    record["regions"][0]["style"]["sha256"] = "0" * 64
    first.write_text(json.dumps(record))
    second.unlink()
    with pytest.raises(InputError) as caught:
        report_of(tmp_path, measured({}))
    text = str(caught.value)
    assert "2 results cannot be measured; delete them" in text
    assert f"{first.with_suffix('.png')}: made from other files" in text
    assert f"{second.with_suffix('.png')}: its record (.json) is missing" in text
    assert str(third.with_suffix(".png")) not in text


def test_no_common_sample_is_an_error(
    tmp_path: Path, manifest: Manifest, variant: Callable[..., Path]
) -> None:
    for i, name in enumerate(("mast", "shared")):
        folder = variant(name)
        for k, sample in enumerate(manifest.samples):
            if k % 2 == i:
                (folder / f"{sample.id}.png").unlink()
    with pytest.raises(InputError, match="no sample that all variants have made"):
        report_of(tmp_path, measured({}))


# ------------------------------------------------------------------------------------------------ files


def test_every_form_is_written(tmp_path: Path, variant: Callable[..., Path]) -> None:
    pytest.importorskip("matplotlib")
    for name in ("mast", "styleid"):
        variant(name)
    variant("zstar-hard", {"name": "zstar"}, "hard")
    numbers = {(f"{k}-hard" if k == "zstar" else k, n): row for (k, n), row in paper_numbers().items()}
    report = report_of(tmp_path, measured(numbers, pictures=3600))
    stem = check_stem(tmp_path / "tables v1.0", False)
    written = save(report, stem)
    assert {path.name for path in written} == {
        f"tables v1.0.{suffix}" for suffix in ("png", "md", "tex", "csv", "json")
    }
    assert Image.open(tmp_path / "tables v1.0.png").width > 400
    text = (tmp_path / "tables v1.0.md").read_text()
    assert "## Comparison" in text and "**14.780**" in text and "<u>16.635</u>" in text and "## Notes" in text
    assert (tmp_path / "tables v1.0.tex").read_text().count(r"\caption{") == len(report.tables)
    data = json.loads((tmp_path / "tables v1.0.json").read_text())
    assert data["kind"] == "mast-bench-report" and len(data["scores"]) == 12
    rows = list(csv.DictReader((tmp_path / "tables v1.0.csv").open()))
    assert len(rows) == 12
    first = next(row for row in rows if row["variant"] == "mast" and row["n"] == "2")
    assert (float(first["artfid"]), first["samples"], first["inception"]) == (14.78, "3600", "fid 0123")
    assert first["rfid_std"] == "" and first["shown"] == "1" and first["ssim_low"] == ""
    ends = float(first["lpips_low"]), float(first["lpips_high"])
    assert ends == pytest.approx((0.5309, 0.5311)) and data["scores"][0]["intervals"]["lpips"]
    with pytest.raises(InputError, match="exists already"):
        check_stem(stem, False)
    check_stem(stem, True)


def test_without_matplotlib_all_but_the_plot_is_written(
    tmp_path: Path, variant: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    variant("mast")
    report = report_of(tmp_path, measured({}))
    written = save(report, tmp_path / "report")
    assert [path.suffix for path in written] == [".md", ".tex", ".csv", ".json"]
    assert NO_PLOT in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_real_networks_measure_real_files(
    tmp_path: Path,
    manifest: Manifest,
    variant: Callable[..., Path],
    random_inception: Path,  # noqa: F811
    random_lpips: Path,  # noqa: F811
) -> None:
    """The whole way from pictures to numbers, on random weights of the real architectures."""
    folders = [variant("mast"), variant("shared")]
    for folder in folders:
        for sample in manifest.samples:
            if sample.n > 2 or sample.tuple_index > 0:
                (folder / f"{sample.id}.png").unlink()
    options = Options(
        inception_weights=random_inception, lpips_weights=random_lpips, repeats=2, skip_bad=True
    )
    report = report_of(tmp_path, lambda what, found: evaluate(found, options))
    assert [(s.variant, s.n, s.samples, s.evaluation.n_regions) for s in report.scores] == [
        ("mast", 2, 2, 4),
        ("shared", 2, 2, 4),
    ]
    for score in report.scores:
        found = score.evaluation
        assert found.artfid == pytest.approx((1 + found.lpips) * (1 + found.fid))  # type: ignore[operator]
        assert found.rfid and found.mfid and found.rkid is not None and found.cosine
        assert found.networks["inception"].startswith("fid ")
    assert BIASED in report.notes
    caption = report.tables[0].caption
    assert "n below 20 is too few: LPIPS, R-KID, cosine" in caption
    assert not any(cell.mark for table in report.tables for row in table.rows for cell in row.cells)
    spoiled = folders[1] / f"{manifest.samples[0].id}.png"
    spoiled.write_bytes(spoiled.read_bytes()[:300])
    with pytest.raises(InputError, match="1 results cannot be measured") as caught:
        report_of(tmp_path, lambda what, found: evaluate(found, options))
    assert str(spoiled) in str(caught.value)
