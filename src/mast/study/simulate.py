"""Synthetic raters, for planning: how many people a study needs to see an effect, and a rehearsal of its
report.

A rating is   centre + method + profile + case + leniency + taste + noise,   rounded and kept to the scale:
what a method is worth, more on one criterion than on another (profile, which sums to nothing), better on
one case than another; how lenient a person is, how much they like a method, and what is left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..job import InputError
from .folder import SCALE, Study
from .ratings import SIMULATED, Ratings
from .statistics import OVERALL, friedman_test, wilcoxon_tests

ALPHA = 0.05
SECONDS = (25.0, 0.35)  # median of the time on a picture, and the spread of its logarithm

OnCount: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RaterModel:
    """means: what each method is worth, in points of the scale. The rest are standard deviations."""

    means: tuple[float, ...]
    noise: float = 1.0
    leniency: float = 0.7
    taste: float = 0.4
    profile: float = 0.3
    case: float = 0.2
    points: int = SCALE["points"]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("noise", "leniency", "taste", "profile", "case"):
            if not 0 <= getattr(self, name) < 100:
                raise InputError(f"--{name} {getattr(self, name)}: a standard deviation in points, 0 or more")
        if len(self.means) < 2:
            raise InputError("a study compares at least two methods")


def ahead(methods: int, effect: float, centre: float = 4.5) -> tuple[float, ...]:
    """The first method so many points above all others, which are equal."""
    return (centre + effect, *[centre] * (methods - 1))


def answers(
    model: RaterModel, people: int, cases: int, criteria: int, rng: np.random.Generator
) -> np.ndarray:
    """(people, cases, methods, criteria), whole numbers from 1 to the scale's points."""
    methods = len(model.means)
    profile = rng.normal(0, model.profile, (methods, criteria))
    profile -= profile.mean(1, keepdims=True)
    case = rng.normal(0, model.case, (cases, methods))
    case -= case.mean(0)
    latent = (
        np.array(model.means)[:, None]
        + profile
        + case[:, :, None]
        + rng.normal(0, model.leniency, (people, 1, 1, 1))
        + rng.normal(0, model.taste, (people, 1, methods, 1))
        + rng.normal(0, model.noise, (people, cases, methods, criteria))
    )
    return np.clip(np.rint(latent), 1, model.points)


def simulate(study: Study, model: RaterModel, people: int, seed: int = 0) -> Ratings:
    """Ratings of a study by synthetic people, marked as such."""
    rng = np.random.default_rng(seed)
    values = answers(model, people, len(study.cases), len(study.criteria), rng)
    seconds = rng.lognormal(np.log(SECONDS[0]), SECONDS[1], values.shape[:3])
    width = len(str(people))
    names = tuple(f"{SIMULATED}-{i + 1:0{width}}" for i in range(people))
    return Ratings(study, names, values, seconds, simulated=True)


def to_rows(ratings: Ratings) -> list[dict[str, object]]:
    """As an export has them (ratings.COLUMNS); nobody saw a picture, so there is no place and no time of
    day."""
    study, found = ratings.study, []
    for p, name in enumerate(ratings.people):
        for c, case in enumerate(study.cases):
            by_method = {output.method: output for output in case.outputs}
            for m, method in enumerate(study.methods):
                for k, criterion in enumerate(study.criteria):
                    found.append(
                        {
                            "participant": name,
                            "case": case.name,
                            "n": case.n,
                            "sample": case.sample,
                            "method": method,
                            "picture": by_method[method].id,
                            "criterion": criterion.name,
                            "value": int(ratings.values[p, c, m, k]),
                            "seconds": round(float(ratings.seconds[p, c, m]), 1),
                            "source": SIMULATED,
                        }
                    )
    return found


# ------------------------------------------------------------------------------------------------ power


@dataclass(frozen=True)
class Power:
    """How often so many people would show it, at the 5 % level and over the mean of all criteria.

    differ: Friedman's test finds that the methods differ. above_all: the best method is ahead of every
    other, each pair by Wilcoxon's test with Holm's correction. above_one: ahead of a given other, on average.
    """

    people: int
    repeats: int
    differ: float
    above_one: float
    above_all: float


def power(
    model: RaterModel,
    people: Sequence[int],
    cases: int,
    criteria: int,
    repeats: int = 200,
    seed: int = 0,
    on_count: OnCount | None = None,
) -> list[Power]:
    """Simulates the study again and again, with the tests that the report makes."""
    best = int(np.argmax(model.means))
    names = tuple(map(str, range(len(model.means))))
    found = []
    for count in people:
        rng = np.random.default_rng([seed, count])
        differ, one, every = 0, 0.0, 0
        for i in range(repeats):
            person = answers(model, count, cases, criteria, rng).mean((1, 3))
            test = friedman_test(OVERALL, person)
            differ += test is not None and test.p < ALPHA
            against = [
                (pair.difference if pair.a == names[best] else -pair.difference) > 0 and pair.holm < ALPHA
                for pair in wilcoxon_tests(OVERALL, names, person)
                if names[best] in (pair.a, pair.b)
            ]
            one += sum(against) / len(against)
            every += all(against)
            if on_count is not None:
                on_count(f"{count} people", i + 1, repeats)
        if len(names) == 2:
            differ = every  # two methods have no other test
        found.append(Power(count, repeats, differ / repeats, one / repeats, every / repeats))
    return found
