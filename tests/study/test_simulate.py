"""Synthetic raters: what is put in comes out, and power grows with people and effect."""

from __future__ import annotations

import numpy as np
import pytest

from mast.job import InputError
from mast.study.ratings import from_rows
from mast.study.simulate import RaterModel, ahead, answers, power, simulate, to_rows
from tests.study.small_study import small_study


def test_answers_have_the_means_that_were_given():
    model = RaterModel((5.0, 4.0, 3.0), noise=0.8, leniency=0.3, taste=0.2)
    values = answers(model, 2000, 3, 6, np.random.default_rng(0))
    assert values.shape == (2000, 3, 3, 6)
    assert set(np.unique(values)) <= set(range(1, 8))
    assert values.mean((0, 1, 3)) == pytest.approx([5.0, 4.0, 3.0], abs=0.05)


def test_the_same_seed_gives_the_same_answers_and_rows_carry_them(tmp_path):
    study = small_study(tmp_path / "s")
    model = RaterModel(ahead(4, 0.5))
    one, other = simulate(study, model, 7, seed=3), simulate(study, model, 7, seed=3)
    assert (one.values == other.values).all() and one.simulated
    back = from_rows(study, to_rows(one))
    assert (back.values == one.values).all() and back.simulated and back.people == one.people
    assert back.seconds == pytest.approx(one.seconds, abs=0.06)


def test_power():
    """No effect is found about as often as the level says; a large one always; more people find more."""
    none = power(RaterModel(ahead(3, 0.0), profile=0, case=0), [12], 2, 3, repeats=150)[0]
    assert none.differ < 0.12 and none.above_all < 0.06
    some = power(RaterModel(ahead(3, 0.35)), [6, 24], 2, 3, repeats=60)
    assert some[0].above_all < some[1].above_all and some[0].differ < some[1].differ
    assert some[1].above_all <= some[1].above_one
    assert power(RaterModel(ahead(3, 2.5)), [15], 2, 3, repeats=20)[0].above_all == 1
    assert power(RaterModel(ahead(2, 2.5)), [15], 2, 3, repeats=20)[0].differ == 1, "two methods: Wilcoxon's"


def test_impossible_raters_are_refused():
    with pytest.raises(InputError, match="--noise"):
        RaterModel((4.0, 5.0), noise=-1)
    with pytest.raises(InputError, match="at least two"):
        RaterModel((4.0,))
