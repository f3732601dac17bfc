"""The study's report: tables of means, intervals, ranks, agreement and tests; who was left out; radar
charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..bench.report.publish import check_stem, write_forms
from ..files import check_output
from ..job import InputError
from ..metrics.intervals import FEWEST, SHARE
from ..tables import Cell, Group, Row, Table, markdown, number, text_table
from .charts import overlay_figure, radar_figure
from .folder import Study
from .quality import FLAGS, Flagged, QualityRule, judge, kept
from .ratings import Ratings
from .statistics import DRAWS, OVERALL, Score, StudyStatistics, analyse, per_person

PLOTS = ("-radar", "-overlay")
ALPHA = 0.05
SIMULATED_NOTE = "These ratings are simulated: no person has given them. They say nothing about any method."


@dataclass
class StudyReport:
    """All that was found; `everybody`: the overall mean of each method with nobody left out."""

    study: Study
    statistics: StudyStatistics
    flagged: list[Flagged]
    rule: QualityRule
    tables: list[Table]
    notes: list[str]
    simulated: bool
    everybody: dict[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mast-study-report",
            "version": 1,
            "title": self.study.title,
            "simulated": self.simulated,
            "people": sum(one.kept for one in self.flagged),
            "rule": {**asdict(self.rule), "stated": self.rule.stated()},
            "flagged": [asdict(one) for one in self.flagged],
            "everybody": self.everybody,
            **self.statistics.to_dict(),
            "notes": self.notes,
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method, criterion and N, for the CSV."""
        return [
            {
                "n": "all" if score.n is None else score.n,
                "method": score.method,
                "criterion": score.criterion,
                "mean": score.mean,
                "low": score.interval and score.interval[0],
                "high": score.interval and score.interval[1],
                "people": score.people,
                "rank": score.rank,
                "mean_rank": score.mean_rank,
            }
            for score in self.statistics.scores
        ]


def build(ratings: Ratings, rule: QualityRule, seed: int = 0) -> StudyReport:
    """Judges who counts, computes everything of them, and makes the tables."""
    flagged = judge(ratings, rule)
    counted = kept(ratings, flagged)
    if not counted.people:
        said = (
            f"{len(flagged)} took part, and none is left by the rule: {rule.stated()}"
            if flagged
            else "nobody has answered yet"
        )
        raise InputError(f"nothing to report: {said}{' Keep more with --drop none.' if flagged else ''}")
    found = analyse(counted, seed)
    everybody = _everybody(ratings)
    notes = [SIMULATED_NOTE] if ratings.simulated else []
    if len(counted.people) < FEWEST:
        notes.append(
            f"{len(counted.people)} people: the intervals of fewer than {FEWEST} are too narrow to rely on"
        )
    study = ratings.study
    tables = [
        _means(study, found, None, len(counted.people)),
        _intervals(study, found),
        *[_means(study, found, n, len(counted.people)) for n in study.numbers if len(study.numbers) > 1],
        _ranks(study, found),
        _tests(study, found),
        _pairs(found),
        _people(flagged, rule),
        _left_out(study, found, everybody),
    ]
    return StudyReport(study, found, flagged, rule, tables, notes, ratings.simulated, everybody)


def _everybody(ratings: Ratings) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for method, column in zip(ratings.study.methods, per_person(ratings).T, strict=True):
        known = column[column == column]
        found[method] = float(known.mean()) if len(known) else None
    return found


# ------------------------------------------------------------------------------------------------ tables


def _columns(study: Study) -> tuple[Group, ...]:
    """The criteria by their first words, where those tell them apart: seven columns fit into a terminal."""
    short = [one.label.split()[0] if one.label.split() else one.name for one in study.criteria]
    heads = short if len(set(short)) == len(short) else [one.label for one in study.criteria]
    return (Group("", (*heads, "Mean")),)


def _names(study: Study) -> list[str]:
    return [*(one.name for one in study.criteria), OVERALL]


def _marked(scores: Sequence[Score]) -> list[Cell]:
    """The highest mean is best; what prints alike ranks alike."""
    shown = [number(score.mean, 2) for score in scores]
    high = sorted({round(score.mean, 2) for score in scores if score.mean is not None}, reverse=True)
    marks = dict(zip((number(value, 2) for value in high), ("best", "second"), strict=False))
    return [Cell(text, marks.get(text, "")) for text in shown]


def _means(study: Study, found: StudyStatistics, n: int | None, people: int) -> Table:
    columns = [_marked([found.score(method, name, n) for method in study.methods]) for name in _names(study)]
    where = "all cases" if n is None else f"N = {n}"
    cases = len([case for case in study.cases if n in (None, case.n)])
    return Table(
        "study" if n is None else f"study-n{n}",
        f"Mean scores, {where}",
        f"Of {study.points} points, {people} people, {cases} case{'s' * (cases > 1)}. Bold: highest, "
        f"underlined: next.",
        ("Method",),
        _columns(study),
        tuple(Row((m,), tuple(column[i] for column in columns)) for i, m in enumerate(study.methods)),
    )


def _intervals(study: Study, found: StudyStatistics) -> Table:
    def text(score: Score) -> Cell:
        return Cell("-" if score.interval is None else "-".join(number(end, 1) for end in score.interval))

    return Table(
        "study-intervals",
        f"{SHARE:.0%} intervals of the means, all cases",
        f"{DRAWS:,} bootstrap draws of people; the CSV has all digits, and those of every N.",
        ("Method",),
        _columns(study),
        tuple(Row((m,), tuple(text(found.score(m, name)) for name in _names(study))) for m in study.methods),
    )


def _ranks(study: Study, found: StudyStatistics) -> Table:
    def text(score: Score) -> Cell:
        mean = number(score.mean_rank, 1)
        return Cell(
            f"{score.rank:g} ({mean})" if score.rank is not None else "-", "best" if score.rank == 1 else ""
        )

    return Table(
        "study-ranks",
        "Ranks, all cases",
        "Rank of the mean; in brackets the mean of the ranks by each person's own means. 1 is best.",
        ("Method",),
        _columns(study),
        tuple(Row((m,), tuple(text(found.score(m, name)) for name in _names(study))) for m in study.methods),
    )


def _tests(study: Study, found: StudyStatistics) -> Table:
    labels = {**{one.name: one.label for one in study.criteria}, OVERALL: "Mean"}
    friedman = {one.criterion: one for one in found.friedman}
    rows = []
    for one in found.agreement:
        test = friedman.get(one.criterion)
        rows.append(
            [
                labels[one.criterion],
                number(one.ordinal),
                number(one.interval),
                *(["-"] * 3 if test is None else [number(test.chi2, 2), probability(test.p), number(test.w)]),
            ]
        )
    return text_table(
        "study-tests",
        "Agreement, and whether the methods differ",
        ("Criterion", "alpha (ord.)", "alpha (int.)", "chi²", "p", "W"),
        rows,
        "Krippendorff's alpha over all pictures, ordinal and interval; Friedman's chi² with "
        f"{len(study.methods) - 1} degrees of freedom, its p, and Kendall's W. A person's answers to several "
        "cases are averaged first.",
    )


def _pairs(found: StudyStatistics) -> Table:
    chosen = sorted((pair for pair in found.pairs if pair.criterion == OVERALL), key=lambda pair: pair.holm)
    rows = []
    for pair in chosen:
        ahead = pair.difference >= 0
        a, b = (pair.a, pair.b) if ahead else (pair.b, pair.a)
        rows.append(
            [a, b, number(abs(pair.difference), 2), probability(pair.p), probability(pair.holm),
             number(pair.effect if ahead else -pair.effect, 2), "yes" if pair.holm < ALPHA else "no"]
        )  # fmt: skip
    return text_table(
        "study-pairs",
        "Pairs of methods, mean of all criteria",
        ("Ahead", "Behind", "Difference", "p", "p, Holm", "Effect", f"below {ALPHA:g}"),
        rows,
        "Wilcoxon's signed-rank test, Holm's correction over all pairs; effect: matched rank-biserial "
        "correlation. "
        "The pairs of every criterion are in the JSON.",
    )


def probability(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}"


def _people(flagged: Sequence[Flagged], rule: QualityRule) -> Table:
    rows = [
        [flag, str(sum(flag in one.flags for one in flagged)), "left out" if flag in rule.drop else "kept"]
        for flag in FLAGS
    ]
    rows += [
        ["without a flag", str(sum(not one.flags for one in flagged)), "kept"],
        ["all who answered", str(len(flagged)), f"{sum(one.kept for one in flagged)} kept"],
    ]
    return text_table(
        "study-people", "Who took part", ("Flag", "People", "What became of them"), rows, rule.stated()
    )


def _left_out(study: Study, found: StudyStatistics, everybody: dict[str, float | None]) -> Table:
    rows = [[m, number(found.score(m).mean, 2), number(everybody[m], 2)] for m in study.methods]
    return text_table(
        "study-everybody",
        "What the rule changes",
        ("Method", "Mean, by the rule", "Mean, everybody"),
        rows,
        "The mean of all criteria and cases.",
    )


# ------------------------------------------------------------------------------------------------ files


def check_target(stem: Path, overwrite: bool) -> Path:
    """Refuses a place where the report could not be written, before anything is computed."""
    check_stem(stem, overwrite)
    for more in PLOTS:
        check_output(stem.with_name(f"{stem.name}{more}.png"), overwrite)
    return stem


def save(report: StudyReport, stem: Path) -> list[Path]:
    """STEM.md, .tex, .csv, .json, and the charts STEM-radar.png and STEM-overlay.png."""
    plots = {
        name: draw(report.study, report.statistics, report.simulated)
        for name, draw in zip(PLOTS, (radar_figure, overlay_figure), strict=True)
    }
    parts = [f"# {report.study.title}\n", *([f"**{SIMULATED_NOTE}**\n"] if report.simulated else [])]
    parts += [f"![Radar charts]({stem.name}{PLOTS[0]}.png)\n", *(markdown(table) for table in report.tables)]
    rest = [note for note in report.notes if note != SIMULATED_NOTE]
    if rest:
        parts.append("## Notes\n\n" + "".join(f"- {note}\n" for note in rest))
    text = "\n".join(parts)
    return write_forms(stem, text, report.tables, report.rows(), report.to_dict(), plots)
