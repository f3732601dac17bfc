"""Sweeps: which variants they make, their tables, and the paper's plots from the paper's numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mast.bench.report.scores import Measurements, VariantScore
from mast.bench.report.sweep import Sweep, known, parse_sweep, save, table
from mast.bench.variants import parse_variant
from mast.core.ddi import transmission
from mast.job import InputError
from mast.metrics import Evaluation

# Tables of the paper: r, pi* and the ablation's trend are FID, LPIPS, R-FID at N = 2.
PAPER_R = {0.1: (9.126, 0.509, 12.055), 0.3: (8.656, 0.531, 11.260), 0.5: (8.527, 0.544, 10.984)}


def score(variant: str, fid: float, lpips: float, rfid: float = 10.0, pictures: int = 3600) -> VariantScore:
    found = Evaluation(
        n=pictures,
        n_regions=2 * pictures,
        n_styles=9,
        fid=fid,
        lpips=lpips,
        artfid=(1 + fid) * (1 + lpips),
        rfid=rfid,
        rfid_std=0.1,
        mfid=12.0,
        rkid=rfid / 100,
        cosine=0.5,
        intervals={"lpips": (lpips - 0.01, lpips + 0.01), "rkid": (rfid / 100 - 1e-3, rfid / 100 + 1e-3)},
        networks={"inception": "artfid abc", "lpips": "alex def"},
    )
    return VariantScore(variant, 2, pictures, found)


def measured(sweep: Sweep, values: list[tuple[float, ...]], pictures: int = 3600) -> Measurements:
    scores = {
        (p.variant.name, 2): score(p.variant.name, *v, pictures=pictures)
        for p, v in zip(sweep.points, values, strict=True)
    }
    return Measurements(scores, {2}, ["a note"])


def test_values_become_variants():
    sweep = parse_sweep("lam=0.5, 0.25", parse_variant("mast:ddi=off"))
    assert [p.variant.name for p in sweep.points] == ["mast-no-ddi-lam0.5", "mast-no-ddi-lam0.25"]
    assert [p.variant.options for p in sweep.points] == [
        {"ddi": False, "lam": 0.5},
        {"ddi": False, "lam": 0.25},
    ]
    assert [p.value for p in sweep.points] == [0.5, 0.25]


def test_fixed_factors_stand_beside_the_adaptive_one():
    sweep = parse_sweep("tau=1,1.5,sts", parse_variant("mast"))
    assert [(p.label, p.value, p.variant.name) for p in sweep.points] == [
        ("1", 1.0, "mast-tau1"),
        ("1.5", 1.5, "mast-tau1.5"),
        ("STS", None, "mast"),
    ]
    assert sweep.points[2].variant.options == {}


def test_the_papers_values_come_with_the_option_alone():
    assert [p.value for p in parse_sweep("r", parse_variant("mast")).points] == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert len(parse_sweep("ablation", parse_variant("mast")).points) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lam=0.1", "at least two values"),
        ("lam=0.1,0.1", "each once"),
        ("lam=0.1,x", "'x' is no number"),
        ("lam=0.1,7", "lam is 7"),
        ("tau=1,adaptive", "sts for the adaptive"),
        ("gamma=1,2", "no option 'gamma'"),
        ("gamma", "alone go lam, pi, r, tau, ablation"),
        ("ablation=1,2", "rows are fixed"),
    ],
)
def test_a_bad_sweep_is_refused(text: str, says: str):
    with pytest.raises(InputError, match=says):
        parse_sweep(text, parse_variant("mast"))


def test_sts_off_has_no_adaptive_point():
    with pytest.raises(InputError, match="STS off"):
        parse_sweep("tau=1,sts", parse_variant("mast:sts=off"))


def test_the_table_marks_the_best_of_each_column():
    """LPIPS' intervals overlap, R-KID's do not; the cosine has none, for too few pictures."""
    sweep = parse_sweep("r=0.1,0.3,0.5", parse_variant("mast"))
    made = table(sweep, measured(sweep, list(PAPER_R.values())))
    assert [row.labels[0] for row in made.rows] == ["0.1", "0.3", "0.5"]
    fid, lpips = ([row.cells[i] for row in made.rows] for i in (1, 2))
    assert [cell.text for cell in fid] == ["9.126", "8.656", "8.527"]
    assert [cell.mark for cell in fid] == ["", "second", "best"]
    assert [cell.mark for cell in lpips] == ["best", "", ""]
    assert [row.cells[4].mark for row in made.rows] == ["", "second", "best"]
    assert [row.cells[5].mark for row in made.rows] == ["", "", ""]
    assert "n = 3600 for N = 2" in made.caption and "artfid abc" in made.caption
    assert "n below 20 is too few: cosine." in made.caption


def test_few_pictures_rank_no_fid():
    sweep = parse_sweep("r=0.1,0.3,0.5", parse_variant("mast"))
    made = table(sweep, measured(sweep, list(PAPER_R.values()), pictures=40))
    assert {row.cells[i].mark for row in made.rows for i in (0, 1, 3)} == {""}
    assert made.rows[2].cells[4].mark == "best"
    assert "n below 2,048 is too few: ArtFID, FID, R-FID." in made.caption


def test_a_value_that_was_not_measured_leaves_a_gap():
    sweep = parse_sweep("r=0.1,0.3,0.5", parse_variant("mast"))
    found = measured(sweep, list(PAPER_R.values()))
    del found.scores["mast-r0.3", 2]
    assert [cell.text for cell in table(sweep, found).rows[1].cells] == ["-"] * 6
    assert [point.label for point, _ in known(sweep, found, 2)] == ["0.1", "0.5"]


def test_the_frequency_plot_is_the_papers():
    pytest.importorskip("matplotlib")
    from mast.bench.report.plots import sweep_figure

    sweep = parse_sweep("r=0.1,0.3,0.5", parse_variant("mast"))
    drawn = sweep_figure(sweep, known(sweep, measured(sweep, list(PAPER_R.values())), 2), 2)
    axes, trade = drawn.axes[0], drawn.axes[1]
    lines = {line.get_label(): line for line in axes.lines}
    assert axes.get_xscale() == "log"
    assert list(lines["FID"].get_xdata()) == pytest.approx([100 * transmission(r) for r in PAPER_R])
    assert list(lines["FID"].get_ydata()) == pytest.approx([1, (8.656 - 8.527) / (9.126 - 8.527), 0])
    assert list(lines["LPIPS"].get_ydata()) == pytest.approx([0, (0.531 - 0.509) / (0.544 - 0.509), 1])
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [line.get_xdata()[0] for line in dashed] == pytest.approx([100 * transmission(0.3)])
    upper = axes.child_axes[0]
    assert [text.get_text() for text in upper.get_xticklabels()] == ["0.1", "0.3", "0.5"]
    assert {text.get_text() for text in trade.texts} == {"r = 0.1", "r = 0.3", "r = 0.5"}


def test_the_sharpness_plot_has_sts_as_a_dashed_line():
    pytest.importorskip("matplotlib")
    from mast.bench.report.plots import sweep_figure

    sweep = parse_sweep("tau=2,1,sts", parse_variant("mast"))
    found = measured(sweep, [(9.0, 0.5), (9.5, 0.45), (8.0, 0.5)])
    left, right = sweep_figure(sweep, known(sweep, found, 2), 2).axes
    fixed, dashed = left.lines
    assert list(fixed.get_xdata()) == [1, 2] and list(fixed.get_ydata()) == pytest.approx([10.5 * 1.45, 15])
    assert dashed.get_linestyle() == "--" and dashed.get_ydata()[0] == pytest.approx(9 * 1.5)
    assert {text.get_text() for text in right.texts} == {"τ = 1", "τ = 2", "STS"}


def test_a_sweep_is_saved_in_every_form(tmp_path: Path):
    sweep = parse_sweep("ablation", parse_variant("mast"))
    found = measured(sweep, [(9.0, 0.5), (8.5, 0.52), (8.4, 0.55), (8.6, 0.5)])
    written = {path.name for path in save(sweep, found, tmp_path)}
    assert {f"sweep-ablation{suffix}" for suffix in (".md", ".tex", ".csv", ".json")} <= written
    rows = json.loads((tmp_path / "sweep-ablation.json").read_text())["rows"]
    assert [row["variant"] for row in rows] == ["shared", "mast-no-sts-no-ddi", "mast-no-ddi", "mast"]
    read = list(csv.DictReader((tmp_path / "sweep-ablation.csv").open()))
    assert [float(row["fid"]) for row in read] == [9.0, 8.5, 8.4, 8.6]
    assert float(read[0]["lpips_low"]) == 0.49 and rows[0]["intervals"]["lpips"] == [0.49, 0.51]
    assert "| + LAMA + STS | mast-no-ddi |" in (tmp_path / "sweep-ablation.md").read_text()


def test_without_matplotlib_there_are_tables(tmp_path: Path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    sweep = parse_sweep("r=0.1,0.3", parse_variant("mast"))
    written = save(sweep, measured(sweep, [(9.0, 0.5), (8.5, 0.52)]), tmp_path)
    assert [path.suffix for path in written] == [".md", ".tex", ".csv", ".json"]
