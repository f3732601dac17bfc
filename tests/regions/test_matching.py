"""The cheapest match against all there are, and the next cheapest."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from mast.regions.matching import match, runner_up, total


def ways(rows: int, columns: int) -> list[tuple[int, ...]]:
    """Every row its own column; with fewer columns every column at least once."""
    if rows <= columns:
        return list(permutations(range(columns), rows))
    return [way for way in product(range(columns), repeat=rows) if len(set(way)) == columns]


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """Some with many equal costs."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    costs = rng.random((draw(st.integers(1, 5)), draw(st.integers(1, 5))))
    return np.round(costs * 3) if draw(st.booleans()) else costs


@given(tables())
def test_none_is_cheaper_and_none_but_it_is_cheaper_than_the_next(costs: np.ndarray) -> None:
    possible = ways(*costs.shape)
    found = match(costs)
    assert tuple(found) in possible
    assert total(costs, found) == pytest.approx(min(total(costs, way) for way in possible))
    others = [way for way in possible if way != tuple(found)]
    second = runner_up(costs, found, range(costs.shape[1]))
    if not others:
        assert second is None
    else:
        assert second is not None and tuple(second) in others
        assert total(costs, second) == pytest.approx(min(total(costs, way) for way in others))


@given(st.integers(0, 1000), st.integers(1, 16), st.integers(0, 6))
def test_it_is_as_cheap_as_scipys(seed: int, rows: int, more: int) -> None:
    costs = np.random.default_rng(seed).normal(size=(rows, rows + more))
    assert total(costs, match(costs)) == pytest.approx(float(costs[linear_sum_assignment(costs)].sum()))


def test_columns_of_one_kind_are_no_other_way() -> None:
    costs = np.array([[1.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    assert runner_up(costs, [0, 1], [0, 0, 1]) in ([2, 0], [2, 1])
    assert total(costs, [2, 0]) == 5
    assert runner_up(costs[:, :2], [0, 1], [0, 0]) is None
