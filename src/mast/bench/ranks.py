"""Orders: Spearman's rank correlation, and which of a column's values are best and second best."""

from __future__ import annotations

import math
from collections.abc import Sequence

FEWEST = 3  # pairs below which a correlation says nothing


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
    """The correlation of the ranks of a and b, in [-1, 1]; None for fewer than three pairs, or where one of
    them is the same everywhere.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values beside {len(b)}")
    if len(a) < FEWEST:
        return None
    x, y = ranks(a), ranks(b)
    middle = (len(a) + 1) / 2  # the mean of the ranks, ties or not
    across = sum((i - middle) * (j - middle) for i, j in zip(x, y, strict=True))
    spread = sum((i - middle) ** 2 for i in x) * sum((j - middle) ** 2 for j in y)
    return max(-1.0, min(1.0, across / math.sqrt(spread))) if spread else None


def marks(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """'best' for the smallest, 'second' for the next, '' for the rest; what prints alike ranks alike. Fewer
    than two values are no contest.
    """
    shown = [None if value is None else round(value, digits) for value in values]
    known = sorted({value for value in shown if value is not None})
    if sum(value is not None for value in shown) < 2:
        return [""] * len(values)
    names = dict(zip(known, ("best", "second"), strict=False))
    return [names.get(value, "") if value is not None else "" for value in shown]
