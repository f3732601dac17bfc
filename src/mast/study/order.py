"""Who sees what when: Williams' balanced Latin squares (Williams 1949).

Over the rows of a square every method stands in every place equally often, and follows every other method
equally often, so that neither tiredness nor contrast with the picture before favours one.
"""

from __future__ import annotations

from .folder import RatedPicture, Study, StudyCase


def balanced_square(n: int) -> list[list[int]]:
    """n rows for an even n, 2n for an odd one; each row is an order of 0..n-1."""
    first = [0]
    low, high = 1, n - 1
    while len(first) < n:  # 0, 1, n-1, 2, n-2, ...: the differences of neighbours are all different
        first.append(low)
        low += 1
        if len(first) < n:
            first.append(high)
            high -= 1
    rows = [[(place + shift) % n for place in first] for shift in range(n)]
    return rows if n % 2 == 0 else rows + [row[::-1] for row in rows]


def shown_order(study: Study, number: int) -> list[tuple[StudyCase, RatedPicture]]:
    """What the participant of this number (0, 1, ...) sees, in order: case by case, each in an order of
    methods.

    Every case has its methods in another row of the square, and after each round of the square the cases
    come in their next order.
    """
    methods = balanced_square(len(study.methods))
    cases = balanced_square(len(study.cases))
    found = []
    for c in cases[(number + number // len(methods)) % len(cases)]:
        case = study.cases[c]
        by_method = {output.method: output for output in case.outputs}
        row = methods[(number + c * (len(methods) // len(study.cases) or 1)) % len(methods)]
        found += [(case, by_method[study.methods[m]]) for m in row]
    return found
