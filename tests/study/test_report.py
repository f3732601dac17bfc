"""The report's numbers, computed again from the CSV by other formulas; who is left out; the files."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.job import InputError
from mast.study.charts import HIGH, LOW, radar_figure, radar_values
from mast.study.folder import Study
from mast.study.quality import QualityRule, judge, parse_drop
from mast.study.ratings import COLUMNS, Ratings, from_rows, read_csv
from mast.study.report import SIMULATED_NOTE, build, save
from mast.study.simulate import RaterModel, simulate, to_rows
from mast.study.statistics import OVERALL, holm
from mast.tables import comma_separated
from tests.study.small_study import METHODS, small_study

PEOPLE = 23
RULE = QualityRule()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return small_study(tmp_path_factory.mktemp("study") / "s", numbers=(2, 3, 3))


@pytest.fixture(scope="module")
def answers(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 23 synthetic people; the first method is ahead."""
    ratings = simulate(study, RaterModel((5.2, 4.6, 4.5, 4.0)), PEOPLE, seed=5)
    path = tmp_path_factory.mktemp("csv") / "answers.csv"
    path.write_text(comma_separated(COLUMNS, to_rows(ratings)))
    return path


@pytest.fixture(scope="module")
def report(study: Study, answers: Path):
    return build(read_csv(study, answers), RULE)


@pytest.fixture(scope="module")
def rows(answers: Path) -> list[dict[str, str]]:
    with answers.open() as file:
        return list(csv.DictReader(file))


def persons(rows: list[dict[str, str]], criterion: str, n: str | None = None) -> dict[str, dict[str, float]]:
    """By method and person, the mean of what they said: plain loops over the CSV."""
    said: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if criterion in (OVERALL, row["criterion"]) and n in (None, row["n"]):
            said[row["method"]][row["participant"]].append(int(row["value"]))
    return {method: {who: sum(v) / len(v) for who, v in of.items()} for method, of in said.items()}


def is_above(a: float, b: float) -> bool:
    return a > b and not math.isclose(a, b)


CRITERIA = ("style", "content", "boundary", "structure", "detail", "quality", OVERALL)


@pytest.mark.parametrize("n", [None, "2", "3"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_means_ranks_and_intervals_recomputed_from_the_csv(report, rows, criterion, n):
    table = persons(rows, criterion, n)
    means = {method: sum(of.values()) / len(of) for method, of in table.items()}
    number = None if n is None else int(n)
    for method in METHODS:
        score = report.statistics.score(method, criterion, number)
        assert score.mean == pytest.approx(means[method], abs=1e-9)
        assert score.people == PEOPLE
        above, equal = (
            sum(f(other, means[method]) for other in means.values()) for f in (is_above, math.isclose)
        )
        assert score.rank == 1 + above + (equal - 1) / 2
        # Another bootstrap, people drawn one by one, must come to the same interval but for its own chance.
        values = np.array(list(table[method].values()))
        rng = np.random.default_rng(99)
        drawn = np.sort(rng.choice(values, (6000, len(values))).mean(1))
        near = 0.15 * values.std(ddof=1) / math.sqrt(len(values)) + 1 / PEOPLE  # a step between two means
        assert score.interval[0] == pytest.approx(drawn[150], abs=near)
        assert score.interval[1] == pytest.approx(drawn[5850], abs=near)
    by_person = [
        [1 + sum(table[o][who] > table[m][who] for o in METHODS)
         + (sum(table[o][who] == table[m][who] for o in METHODS) - 1) / 2 for m in METHODS]
        for who in table[METHODS[0]]
    ]  # fmt: skip
    given = [report.statistics.score(m, criterion, number).mean_rank for m in METHODS]
    assert given == pytest.approx(np.mean(by_person, 0).tolist(), abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_friedman_recomputed(report, rows, criterion):
    """From rank sums with the correction for ties; p by the chi-squared distribution with three degrees."""
    table = persons(rows, criterion)
    people = list(table[METHODS[0]])
    k, n = len(METHODS), len(people)
    sums, ties = [0.0] * k, 0
    for who in people:
        values = [table[m][who] for m in METHODS]
        sums = [
            s + sum(v < x for v in values) + (values.count(x) + 1) / 2
            for s, x in zip(sums, values, strict=True)
        ]
        ties += sum(t**3 - t for t in (values.count(v) for v in set(values)))
    top = 12 * sum(s * s for s in sums) / (n * k * (k + 1)) - 3 * n * (k + 1)
    chi2 = top / (1 - ties / (n * k * (k * k - 1)))
    p = math.erfc(math.sqrt(chi2 / 2)) + math.sqrt(2 * chi2 / math.pi) * math.exp(-chi2 / 2)  # df = 3
    found = next(one for one in report.statistics.friedman if one.criterion == criterion)
    assert found.chi2 == pytest.approx(chi2, rel=1e-9)
    assert found.p == pytest.approx(p, rel=1e-6, abs=1e-14)
    assert found.w == pytest.approx(chi2 / (n * (k - 1)), rel=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_wilcoxon_holm_and_effect_recomputed(report, rows, criterion):
    """The normal approximation with ties, by hand; Holm as a maximum over the smaller p."""
    table = persons(rows, criterion)
    expected = {}
    for a, b in combinations(METHODS, 2):
        moved = [x for x in (table[a][who] - table[b][who] for who in table[a]) if x != 0]
        sizes = [abs(x) for x in moved]
        rank = [sum(s < x for s in sizes) + (sizes.count(x) + 1) / 2 for x in sizes]
        plus = sum(r for r, x in zip(rank, moved, strict=True) if x > 0)
        n = len(moved)
        ties = sum(t**3 - t for t in (sizes.count(s) for s in set(sizes)))
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24 - ties / 48)
        p = math.erfc(abs(plus - n * (n + 1) / 4) / spread / math.sqrt(2))
        effect = (2 * plus - sum(rank)) / sum(rank)
        expected[a, b] = (p, effect)
    found = {(pair.a, pair.b): pair for pair in report.statistics.pairs if pair.criterion == criterion}
    assert found.keys() == expected.keys()
    for key, (p, effect) in expected.items():
        assert found[key].p == pytest.approx(p, rel=1e-6)
        assert found[key].effect == pytest.approx(effect, abs=1e-12)
        a, b = (np.mean(list(table[m].values())) for m in key)
        assert found[key].difference == pytest.approx(a - b, abs=1e-9)
    plain = {key: pair.p for key, pair in found.items()}
    for key, pair in found.items():
        smaller = [q for q in plain.values() if q <= plain[key]]
        worst = max(min(1.0, q * sum(o >= q for o in plain.values())) for q in smaller)
        assert pair.holm == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_agreement_recomputed(report, rows, criterion):
    """The interval alpha from the variances: within pictures and over all."""
    units = defaultdict(list)
    for row in rows:
        if criterion in (OVERALL, row["criterion"]):
            units[row["case"], row["method"], row["criterion"]].append(int(row["value"]))
    within = np.mean([np.var(values, ddof=1) for values in units.values()])
    overall = np.var([v for values in units.values() for v in values], ddof=1)
    found = next(one for one in report.statistics.agreement if one.criterion == criterion)
    assert found.interval == pytest.approx(1 - within / overall, abs=1e-9)
    assert found.ordinal == pytest.approx(found.interval, abs=0.1)


def test_holm_in_a_known_case():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


# ------------------------------------------------------------------------------------------------ who counts


def people(study: Study, **changes: object) -> Ratings:
    """Five people in earnest; each of `changes` is a function that spoils one's values and seconds."""
    ratings = simulate(study, RaterModel((5.0, 4.5, 4.5, 4.0)), 5, seed=1)
    for i, spoil in enumerate(changes.values()):
        spoil(ratings.values[i], ratings.seconds[i])
    return ratings


def test_flags_and_the_rule(study):
    def incomplete(values, seconds):
        values[0, 0, 0] = np.nan

    def straight(values, seconds):
        values[:] = 4
        values[0, 0, 0] = 5  # one picture of twelve is looked at

    def fast(values, seconds):
        seconds[:] = 3.0

    ratings = people(study, a=incomplete, b=straight, c=fast)
    flagged = judge(ratings, RULE)
    assert [one.flags for one in flagged] == [("incomplete",), ("straight",), ("fast",), (), ()]
    assert [one.kept for one in flagged] == [False, False, False, True, True]
    assert flagged[0].answers == 71
    lenient = QualityRule(parse_drop("incomplete"), straight=0.95, seconds=2)
    assert [one.flags for one in judge(ratings, lenient)] == [("incomplete",), (), (), (), ()]
    assert all(one.kept for one in judge(ratings, QualityRule(parse_drop("none"))))
    report = build(ratings, RULE)
    assert report.statistics.score("alpha").people == 2
    assert "6 s" in report.rule.stated() and "90%" in report.rule.stated()
    everybody = [ratings.values[p, :, 0][~np.isnan(ratings.values[p, :, 0])].mean() for p in range(5)]
    assert report.everybody["alpha"] == pytest.approx(np.mean(everybody))
    assert any("fewer than 20" in note for note in report.notes)


def test_incomplete_people_who_are_kept_count_where_they_answered(study):
    def incomplete(values, seconds):
        values[:, 1] = np.nan

    ratings = people(study, a=incomplete)
    report = build(ratings, QualityRule(()))
    assert report.statistics.score("alpha").people == 5 and report.statistics.score("beta").people == 4
    assert report.statistics.friedman[-1].people == 4, (
        "the tests compare within people who rated every method"
    )


def test_nobody_left(study):
    def fast(values, seconds):
        seconds[:] = 1

    ratings = people(study, **dict.fromkeys("abcde", fast))
    with pytest.raises(InputError, match=r"none is left by the rule.*--drop none"):
        build(ratings, RULE)
    with pytest.raises(InputError, match="nobody has answered yet"):
        build(from_rows(study, []), RULE)
    with pytest.raises(InputError, match="choose of incomplete"):
        QualityRule(("slow",))


def test_two_methods_have_wilcoxon_and_no_friedman(tmp_path):
    study = small_study(tmp_path / "s", ("a", "b"), (2,))
    report = build(simulate(study, RaterModel((5.0, 4.0)), 20), RULE)
    assert report.statistics.friedman == [] and len(report.statistics.pairs) == 7


def test_people_who_see_no_difference_at_all(study):
    ratings = people(study)
    ratings.values[:] = ratings.values[:, :, :1]
    report = build(ratings, QualityRule(()))
    assert {pair.p for pair in report.statistics.pairs} == {1.0}
    assert report.statistics.friedman == []
    assert {pair.effect for pair in report.statistics.pairs} == {0.0}


# ------------------------------------------------------------------------------------------------ files


def test_the_files_say_the_same_and_say_that_it_is_simulated(report, tmp_path, study):
    written = save(report, tmp_path / "out")
    names = {path.name for path in written}
    assert names == {"out.md", "out.tex", "out.csv", "out.json", "out-radar.png", "out-overlay.png"}
    text = (tmp_path / "out.md").read_text()
    assert SIMULATED_NOTE in text and "out-radar.png" in text and report.rule.stated() in text
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["simulated"] is True and data["people"] == PEOPLE and len(data["pairs"]) == 7 * 6
    with (tmp_path / "out.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 3 * 7 * 4  # N = 2, 3, all; criteria and their mean; methods
    row = next(r for r in table if (r["n"], r["method"], r["criterion"]) == ("all", "alpha", "style"))
    mean = report.statistics.score("alpha", "style").mean
    assert (
        float(row["mean"]) == mean
        and f"{mean:.2f}" in text
        and f"{mean:.2f}" in (tmp_path / "out.tex").read_text()
    )
    for name in ("out-radar.png", "out-overlay.png"):
        assert min(Image.open(tmp_path / name).size) > 600


def test_radar_charts_as_in_the_paper(report, study):
    figure = radar_figure(study, report.statistics, simulated=True)
    assert len(figure.axes) == len(METHODS) + 1
    for axes in figure.axes:
        assert axes.get_ylim() == (LOW, HIGH) == (0.30, 0.95)
    values = radar_values(study, report.statistics, "alpha")
    assert values == [report.statistics.score("alpha", one.name).mean / 7 for one in study.criteria]
    drawn = figure.axes[0].lines[0].get_ydata()
    assert list(drawn) == pytest.approx([*values, values[0]])
    assert len(figure.axes[-1].lines) == len(METHODS)
    assert "simulated" in figure.get_suptitle()


# ------------------------------------------------------------------------------------------------ a CSV


def test_a_csv_of_something_else_is_refused(study, answers, tmp_path):
    text = answers.read_text()

    def refused(changed: str, match: str) -> None:
        path = tmp_path / "bad.csv"
        path.write_bytes(changed.encode())
        with pytest.raises(InputError, match=match):
            read_csv(study, path)

    refused("a,b\n1,2\n", "no column participant")
    refused(text.replace("alpha", "omega"), "line 2: the study has no 'omega'")
    lines = text.splitlines(keepends=True)
    refused("".join([lines[0], lines[1], lines[1]]), "line 3: answers a question a second time")
    refused(lines[0] + lines[1].replace(",style,", ",style,9"), "not from 1 to 7")
    refused(lines[0] + lines[1].replace(",style,", ",style,x"), "line 2: damaged")
    with pytest.raises(InputError, match="no such file"):
        read_csv(study, tmp_path / "none.csv")
