"""What the answers say: means with intervals, ranks, agreement, and tests of whether methods differ.

People are what is drawn at random here, so a person is the unit everywhere: their answers to several cases
are averaged before anything is tested or drawn again, and an interval is over people.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from ..bench.report.ranking import ranks
from ..job import InputError
from ..metrics.intervals import SHARE, resamples
from .agreement import krippendorff_alpha
from .ratings import Ratings

OVERALL = "overall"  # the mean of all criteria
DRAWS = 10_000  # of people, behind an interval: with 1,000 its ends still move by a tenth of the interval
NEEDS_SCIPY = "the tests are scipy's: pip install 'mast[study]'"


@dataclass(frozen=True)
class Score:
    """A method's mean on one criterion (or overall), for one N (None: all cases); people: how many it is of.

    interval: 95 %, of DRAWS draws of people. rank: of the means, 1 is best. mean_rank: of the ranks that each
    person gave the method, by their own means.
    """

    method: str
    criterion: str
    n: int | None
    mean: float | None
    interval: tuple[float, float] | None
    people: int
    rank: float | None = None
    mean_rank: float | None = None


@dataclass(frozen=True)
class Friedman:
    """Whether the methods differ at all on a criterion. w: Kendall's W, from 0 (no common order) to 1."""

    criterion: str
    people: int
    chi2: float
    p: float
    w: float


@dataclass(frozen=True)
class Pair:
    """Wilcoxon's signed-rank test of two methods. p: as it is; holm: corrected for all pairs of the
    criterion.

    difference: a's mean less b's. effect: the matched rank-biserial correlation, -1..1, positive where a is
    ahead.
    """

    criterion: str
    a: str
    b: str
    difference: float
    p: float
    holm: float
    effect: float


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha over the rated pictures (for all criteria: over every question of every
    picture)."""

    criterion: str
    ordinal: float | None
    interval: float | None


@dataclass(frozen=True)
class StudyStatistics:
    """All of it. scores: of every method, criterion (and overall) and N (and all)."""

    scores: list[Score]
    friedman: list[Friedman]
    pairs: list[Pair]
    agreement: list[Agreement]

    def score(self, method: str, criterion: str = OVERALL, n: int | None = None) -> Score:
        return next(s for s in self.scores if (s.method, s.criterion, s.n) == (method, criterion, n))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def analyse(ratings: Ratings, seed: int = 0) -> StudyStatistics:
    """Everything the report shows, of the people who count."""
    names = [*(one.name for one in ratings.study.criteria), OVERALL]
    numbers = [*ratings.study.numbers, None] if len(ratings.study.numbers) > 1 else [None]
    scores = [score for n in numbers for name in names for score in _scores(ratings, name, n, seed)]
    friedman, pairs = [], []
    for name in names:
        person = complete(per_person(ratings, name))
        found = friedman_test(name, person)
        friedman += [] if found is None else [found]
        pairs += wilcoxon_tests(name, ratings.study.methods, person)
    return StudyStatistics(scores, friedman, pairs, [_agreement(ratings, name) for name in names])


# ------------------------------------------------------------------------------------------------ means


def per_person(ratings: Ratings, criterion: str = OVERALL, n: int | None = None) -> np.ndarray:
    """(people, methods): everybody's mean over the cases of an N (and over the criteria); NaN where they
    gave none.

    A sum divided once, so that what ties stays tied.
    """
    values = ratings.values[:, ratings.cases_of(n)]
    if criterion != OVERALL:
        place = [one.name for one in ratings.study.criteria].index(criterion)
        values = values[..., place : place + 1]
    known = ~np.isnan(values)
    count = known.sum((1, 3))
    return np.where(count, np.where(known, values, 0).sum((1, 3)) / np.maximum(count, 1), np.nan)


def complete(person: np.ndarray) -> np.ndarray:
    """(people, methods) of those who rated every method."""
    return person[~np.isnan(person).any(1)]


def _scores(ratings: Ratings, criterion: str, n: int | None, seed: int) -> list[Score]:
    person = per_person(ratings, criterion, n)
    whole = complete(person)
    means: list[float | None] = []
    intervals: list[tuple[float, float] | None] = []
    for column in person.T:
        known = column[~np.isnan(column)]
        means.append(float(known.mean()) if len(known) else None)
        intervals.append(_interval(known, seed) if len(known) > 1 else None)
    order = ranks([math.inf if mean is None else -round(mean, 9) for mean in means])
    given = np.array([ranks(list(-row)) for row in whole]).mean(0) if len(whole) else None
    return [
        Score(
            method,
            criterion,
            n,
            means[i],
            intervals[i],
            int((~np.isnan(person[:, i])).sum()),
            None if means[i] is None else order[i],
            None if given is None else float(given[i]),
        )
        for i, method in enumerate(ratings.study.methods)
    ]


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    """Of the mean of values (people,): the percentiles of the means of people drawn with replacement."""
    means = _draws(len(values), seed) @ values / len(values)
    low, high = np.quantile(means, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _draws(people: int, seed: int) -> np.ndarray:
    """(DRAWS, people); the same for every method and criterion, so that they are compared on equal terms."""
    return resamples(people, seed, DRAWS).numpy()


# ------------------------------------------------------------------------------------------------ tests


def friedman_test(criterion: str, person: np.ndarray) -> Friedman | None:
    """person: (people, methods), no NaN. None for fewer than three methods or two people, where there is
    none."""
    people, methods = person.shape
    if methods < 3 or people < 2 or (person == person[:, :1]).all():
        return None
    chi2, p = _scipy().friedmanchisquare(*person.T)
    return Friedman(criterion, people, float(chi2), float(p), float(chi2) / (people * (methods - 1)))


def wilcoxon_tests(criterion: str, methods: tuple[str, ...], person: np.ndarray) -> list[Pair]:
    """Every pair of methods; people who see no difference between the two do not count (Wilcoxon's own
    way)."""
    if not len(person):
        return []
    pairs = list(combinations(range(len(methods)), 2))
    differences = np.stack([person[:, i] - person[:, j] for i, j in pairs], 1)
    plain = _wilcoxon(differences)
    return [
        Pair(criterion, methods[i], methods[j], float(moved.mean()), p, corrected, _biserial(moved))
        for (i, j), moved, p, corrected in zip(pairs, differences.T, plain, holm(plain), strict=True)
    ]


def _wilcoxon(differences: np.ndarray) -> list[float]:
    """p of every column of (people, pairs), by the normal approximation with ties; 1 where nobody differs.

    The exact distribution does not hold with ties, which ratings have, and scipy's way around that takes
    half a second a pair for a dozen people.
    """
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns of nothing but zeros, which are set to 1 here
        found = np.atleast_1d(_scipy().wilcoxon(differences, axis=0, method="approx").pvalue)
    return [float(p) for p in np.where(np.isnan(found) | ~differences.any(0), 1.0, found)]


def _biserial(difference: np.ndarray) -> float:
    """(sum of the ranks for - sum against) / sum of all (Kerby 2014)."""
    moved = difference[difference != 0]
    if not len(moved):
        return 0.0
    order = np.array(ranks(list(np.abs(moved))))
    return float((order * np.sign(moved)).sum() / order.sum())


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction: the smallest p times m, the next times m - 1, ..., never falling, at
    most 1."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, reached = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[i]))
        found[i] = reached
    return found


def _agreement(ratings: Ratings, criterion: str) -> Agreement:
    values = ratings.values
    if criterion != OVERALL:
        values = values[..., [one.name for one in ratings.study.criteria].index(criterion)]
    units = values.reshape(len(values), -1)
    return Agreement(criterion, krippendorff_alpha(units, "ordinal"), krippendorff_alpha(units, "interval"))


def _scipy() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise InputError(NEEDS_SCIPY) from error
    return stats
