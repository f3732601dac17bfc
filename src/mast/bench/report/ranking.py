"""Who is ahead, and whether that can be said: marks for the best, and correlations of two orders."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...metrics.evaluation import Estimate, Metric
from ...tables import Cell, number

FEWEST_PAIRS = 3  # below which a correlation says nothing


def ranked_cells(
    metric: Metric, estimates: Sequence[Estimate | None], ranked: Sequence[bool] | None = None
) -> list[Cell]:
    """A column of a table. Marked are rows that are `ranked` (all, unless said) and measured on enough."""
    contest = [
        estimate if estimate is not None and estimate.enough and (ranked is None or ranked[i]) else None
        for i, estimate in enumerate(estimates)
    ]
    marked = marks(contest, metric.higher, metric.digits)
    return [
        Cell(number(estimate.value if estimate else None, metric.digits), mark)
        for estimate, mark in zip(estimates, marked, strict=True)
    ]


def marks(estimates: Sequence[Estimate | None], higher: bool = False, digits: int = 3) -> list[str]:
    """'best' for the smallest (or highest), 'second' for the next, '' for the rest.

    A mark is given only where the interval overlaps no other row's; without a best there is no second. Values
    without intervals that print alike rank alike. Fewer than two are no contest.
    """
    known = {i: estimate for i, estimate in enumerate(estimates) if estimate is not None}
    shown = {i: round(estimate.value, digits) for i, estimate in known.items()}
    found = [""] * len(estimates)
    if len(known) < 2:
        return found
    for mark, value in zip(("best", "second"), sorted(set(shown.values()), reverse=higher), strict=False):
        holders = [i for i in known if shown[i] == value]
        if any(overlap(known[i], other) for i in holders for j, other in known.items() if j != i):
            break
        for i in holders:
            found[i] = mark
    return found


def overlap(a: Estimate, b: Estimate) -> bool:
    """Whether two intervals meet; a value without one is a point, and two points never meet."""
    if a.interval is None and b.interval is None:
        return False
    (low, high), (other_low, other_high) = (e.interval or (e.value, e.value) for e in (a, b))
    return low <= other_high and other_low <= high


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for i in order[first : last + 1]:
            found[i] = (first + last) / 2 + 1
        first = last + 1
    return found


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The correlation of the ranks of a and b, in [-1, 1]; None for fewer than three pairs, or where one side
    is the same everywhere.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values beside {len(b)}")
    if len(a) < FEWEST_PAIRS:
        return None
    x, y = ranks(a), ranks(b)
    middle = (len(a) + 1) / 2  # the mean of the ranks, ties or not
    across = sum((i - middle) * (j - middle) for i, j in zip(x, y, strict=True))
    spread = sum((i - middle) ** 2 for i in x) * sum((j - middle) ** 2 for j in y)
    return max(-1.0, min(1.0, across / math.sqrt(spread))) if spread else None
