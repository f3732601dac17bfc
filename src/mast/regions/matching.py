"""The cheapest way to give every row of a small table a column, exactly; and the next cheapest.

Rows are regions and columns are styles. Where there are more columns than rows, every row has its own and
some columns are left over. Where there are fewer, every column is taken at least once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FORBIDDEN = 1e9  # more than any sum of costs; a match that needs it is none


def match(costs: np.ndarray) -> list[int]:
    """The column of each row, (n, m) -> n numbers.

    With fewer columns than rows there is one place in every column, and n - m more in whichever a row likes
    best: the rows that fill the first kind are those that lose least by it.
    """
    rows, columns = costs.shape
    if rows <= columns:
        return _hungarian(costs)
    anywhere = np.repeat(costs.min(1, keepdims=True), rows - columns, 1)
    found = _hungarian(np.concatenate([costs, anywhere], 1))
    return [place if place < columns else int(costs[row].argmin()) for row, place in enumerate(found)]


def runner_up(costs: np.ndarray, chosen: Sequence[int], kind: Sequence[int]) -> list[int] | None:
    """The cheapest other way: one in which some row has a column of another kind. None: there is none.

    kind: a number for each column; columns with the same number are the same thing.
    """
    kinds, best = np.asarray(kind), None
    for row, column in enumerate(chosen):  # another way differs in some row, whichever it is
        without = costs.copy()
        without[row, kinds == kinds[column]] = FORBIDDEN
        other = match(without)
        if total(without, other) < FORBIDDEN and (best is None or total(costs, other) < total(costs, best)):
            best = other
    return best


def total(costs: np.ndarray, chosen: Sequence[int]) -> float:
    return float(sum(costs[row, column] for row, column in enumerate(chosen)))


def _hungarian(costs: np.ndarray) -> list[int]:
    """Kuhn and Munkres, (n, m) with n <= m: rows are added one by one, each along the cheapest path of
    exchanges. `prices` of rows and columns keep every reduced cost at or above 0.
    """
    rows, columns = costs.shape
    of_row, of_column = np.zeros(rows + 1), np.zeros(columns + 1)
    taker = np.zeros(columns + 1, int)  # the row, from 1, that has each column; column 0 is the newcomer's
    for row in range(1, rows + 1):
        taker[0], at = row, 0
        cheapest, before = np.full(columns + 1, np.inf), np.zeros(columns + 1, int)
        seen = np.zeros(columns + 1, bool)
        while taker[at]:
            seen[at] = True
            reduced = costs[taker[at] - 1] - of_row[taker[at]] - of_column[1:]
            better = ~seen[1:] & (reduced < cheapest[1:])
            cheapest[1:][better], before[1:][better] = reduced[better], at
            after = int(np.where(seen, np.inf, cheapest).argmin())
            step = cheapest[after]
            of_row[taker[seen]] += step
            of_column[seen] -= step
            cheapest[~seen] -= step
            at = after
        while at:
            taker[at], at = taker[before[at]], before[at]
    found = [0] * rows
    for column in range(1, columns + 1):
        if taker[column]:
            found[taker[column] - 1] = column - 1
    return found
