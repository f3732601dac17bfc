"""The order in which people see pictures is balanced."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from mast.study.order import balanced_square, shown_order
from tests.study.small_study import small_study


@pytest.mark.parametrize("n", range(1, 11))
def test_every_place_and_every_neighbour_equally_often(n: int):
    rows = balanced_square(n)
    assert len(rows) == (n if n % 2 == 0 else 2 * n)
    assert all(sorted(row) == list(range(n)) for row in rows)
    places = Counter((place, one) for row in rows for place, one in enumerate(row))
    assert len(places) == n * n and len(set(places.values())) == 1
    neighbours = Counter(pair for row in rows for pair in pairwise(row))
    assert len(neighbours) == n * (n - 1) and len(set(neighbours.values())) <= 1


@pytest.mark.parametrize(("methods", "cases"), [(4, 2), (8, 4), (3, 1), (5, 3), (2, 4)])
def test_over_a_round_of_people_no_method_is_favoured_in_any_case(tmp_path: Path, methods: int, cases: int):
    names = tuple(f"m{i}" for i in range(methods))
    study = small_study(tmp_path / "study", names, tuple(range(2, 2 + cases)))
    round_ = len(balanced_square(methods))
    orders = [shown_order(study, number) for number in range(round_ * len(balanced_square(cases)))]
    for order in orders:
        assert len({output.id for _, output in order}) == methods * cases
        shown = [case.name for case, _ in order]
        assert all(len(set(shown[i : i + methods])) == 1 for i in range(0, len(shown), methods)), (
            "case by case"
        )
    for case in study.cases:
        mine = [[output.method for c, output in order if c is case] for order in orders[:round_]]
        places = Counter((i, method) for order in mine for i, method in enumerate(order))
        assert len(places) == methods**2 and len(set(places.values())) == 1
        neighbours = Counter(pair for order in mine for pair in pairwise(order))
        assert len(neighbours) == methods * (methods - 1) and len(set(neighbours.values())) == 1
    first = Counter(order[0][0].name for order in orders)
    assert len(first) == cases and max(first.values()) - min(first.values()) <= round_


def test_a_person_meets_the_methods_in_another_order_in_another_case(tmp_path: Path):
    study = small_study(tmp_path / "study", tuple("abcdefgh"), (2, 3, 4, 5))
    order = shown_order(study, 3)
    seen = {tuple(output.method for _, output in order[i : i + 8]) for i in range(0, 32, 8)}
    assert len(seen) == 4
