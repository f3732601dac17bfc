"""Krippendorff's alpha against published examples, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mast.study.agreement import krippendorff_alpha

NONE = np.nan
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": four observers, twelve units;
# .743 nominal, .815 ordinal, .849 interval.
FOUR = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
)
# The worked example of the encyclopedias: three coders, fifteen units; .691 nominal, .811 interval.
THREE = np.array(
    [
        [NONE, NONE, NONE, NONE, NONE, 3, 4, 1, 2, 1, 1, 3, 3, NONE, 3],
        [1, NONE, 2, 1, 3, 3, 4, 3, NONE, NONE, NONE, NONE, NONE, NONE, NONE],
        [NONE, NONE, 2, 1, 3, 4, 4, NONE, 2, 1, 1, 3, 3, NONE, 4],
    ]
)


@pytest.mark.parametrize(
    ("ratings", "level", "published"),
    [
        (FOUR, "nominal", 0.743),
        (FOUR, "ordinal", 0.815),
        (FOUR, "interval", 0.849),
        (THREE, "nominal", 0.691),
        (THREE, "interval", 0.811),
    ],
)
def test_published_examples(ratings, level, published):
    assert krippendorff_alpha(ratings, level) == pytest.approx(published, abs=5e-4)


def by_pairs(ratings: np.ndarray) -> float:
    """The interval alpha from its definition, pair by pair: 1 - observed / expected disagreement."""
    units = [[v for v in column if v == v] for column in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    every = [v for unit in units for v in unit]
    observed = sum(sum((a - b) ** 2 for a in unit for b in unit) / (len(unit) - 1) for unit in units) / len(
        every
    )
    expected = sum((a - b) ** 2 for a in every for b in every) / (len(every) * (len(every) - 1))
    return 1 - observed / expected


@given(st.integers(0, 10_000))
def test_interval_is_the_definition_whatever_is_missing(seed):
    rng = np.random.default_rng(seed)
    ratings = rng.integers(1, 8, (4, 9)).astype(float)
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    assert krippendorff_alpha(ratings, "interval") == pytest.approx(by_pairs(ratings), abs=1e-12)
    shuffled = ratings[rng.permutation(4)][:, rng.permutation(9)]
    for level in ("nominal", "ordinal", "interval"):
        assert krippendorff_alpha(shuffled, level) == pytest.approx(
            krippendorff_alpha(ratings, level), abs=1e-12
        )


def test_ordinal_sees_the_order_only():
    stretched = np.where(FOUR == 5, 100, FOUR)
    assert krippendorff_alpha(stretched, "ordinal") == pytest.approx(krippendorff_alpha(FOUR, "ordinal"))
    assert krippendorff_alpha(stretched, "interval") != pytest.approx(krippendorff_alpha(FOUR, "interval"))


def test_the_ends():
    same = np.tile(np.array([1.0, 3, 5, 7]), (3, 1))
    assert krippendorff_alpha(same) == 1
    assert krippendorff_alpha(np.full((3, 4), 4.0)) is None, "nothing varies, so there is nothing to agree on"
    assert krippendorff_alpha(np.array([[1.0, np.nan], [np.nan, 2.0]])) is None, "no unit has two ratings"
    assert krippendorff_alpha(np.zeros((0, 4))) is None
    assert krippendorff_alpha(np.array([[1.0, 7.0], [7.0, 1.0]])) < 0, "contradiction"
