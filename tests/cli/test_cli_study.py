"""mast study: the whole way on the command line, from runs to a report, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from mast.study.answers import AnswerStore
from mast.study.folder import read_study
from mast.study.order import shown_order
from tests.small_bench import make_bench
from tests.study.small_study import small_study


@pytest.fixture
def study(folder: Path) -> Path:
    small_study(folder / "s")
    return folder / "s"


def test_from_runs_to_a_report(run, model: Path, folder: Path):
    make_bench(folder / "bench", 2, 1)
    assert run(
        "bench", "run", "bench", "-o", "runs", "-m", "mast", "-m", "shared", "-m", "reconstruct",
        "--model", model, "--steps", 2, "--size", 64, "--threads", 1,
    ).code == 0  # fmt: skip
    made = run("study", "make", "runs", "-o", "s", "--title", "Which is best?")
    assert made.code == 0, made.err
    assert "case-1" in made.out and "texts/consent.md" in made.err
    links = run("study", "invite", "s", "--address", "http://127.0.0.1:8431", "--people", 3)
    rows = list(csv.DictReader(io.StringIO(links.out)))
    assert len({row["link"] for row in rows}) == 3
    study = read_study(Path("s"))
    store = AnswerStore(study)
    for i, row in enumerate(rows):
        store.consent(row["code"])
        for _, output in shown_order(study, i):
            for k, criterion in enumerate(study.criteria):
                store.save(row["code"], output.id, criterion.name, 1 + (k + len(output.method) + i) % 7, 20)
    store.close()
    assert run("study", "people", "s").out.count("18 of 18") == 3
    assert len(run("study", "export", "s").out.splitlines()) == 1 + 3 * 18
    report = run("study", "report", "s")
    assert report.code == 0, report.err
    assert "Mean scores, all cases" in report.out and "fewer than 20" in report.err
    assert {path.name for path in Path("s").glob("report*")} == {
        "report.md", "report.tex", "report.csv", "report.json", "report-radar.png", "report-overlay.png",
    }  # fmt: skip
    assert json.loads(Path("s/report.json").read_text())["simulated"] is False
    assert run("study", "withdraw", "s", rows[0]["code"]).code == 0
    assert json.loads(run("study", "report", "s", "--json").out)["people"] == 2


def test_a_rehearsal_with_synthetic_raters(run, study: Path):
    assert run("study", "simulate", "s", "--people", 12, "--mean", "beta=3", "-o", "sim.csv").code == 0
    report = run("study", "report", "s", "--answers", "sim.csv", "-o", "rehearsal", "--drop", "none")
    assert report.code == 0, report.err
    assert "simulated" in report.err and Path("rehearsal-radar.png").is_file()
    assert json.loads(Path("rehearsal.json").read_text())["simulated"] is True


def test_power_is_printed(run, folder: Path):
    outcome = run("study", "simulate", "--people", "5,20", "--repeats", 10, "--methods", 3, "--effect", 2)
    assert outcome.code == 0, outcome.err
    assert "best above all" in outcome.out
    found = json.loads(
        run(
            "study", "simulate", "--people", "20", "--repeats", 5, "--methods", 3, "--effect", 2, "--json"
        ).out
    )
    assert found == [{"people": 20, "repeats": 5, "differ": 1.0, "above_one": 1.0, "above_all": 1.0}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "s"), "nobody has been invited yet"),
        (("report", "nowhere"), "no such folder"),
        (("report", "s", "--drop", "lazy"), "--drop lazy"),
        (("export", "s"), "nobody has been invited yet"),
        (("people", "data"), "no study.json in it"),
        (("invite", "s", "--address", "study.example.org"), "--address study.example.org"),
        (("invite", "s", "--address", "http://x", "-o", "links.txt"), "must end in .csv"),
        (("serve", "s", "--address", "ftp://x"), "--address ftp://x"),
        (("simulate", "--people", "many"), "--people many"),
        (("simulate", "--mean", "a=1"), "need a STUDY"),
        (("simulate", "s", "--mean", "zeta=1"), "no method is called 'zeta'"),
        (("simulate", "--noise", "-1"), "--noise -1.0"),
        (("make", "nowhere", "-o", "t"), "no such folder"),
        (("make", "s", "-o", "photo.png"), "is no study"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(refused, study: Path, arguments: tuple[str, ...], said: str):
    assert said in refused("study", *arguments)
