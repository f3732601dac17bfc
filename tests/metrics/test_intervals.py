"""Bootstrap intervals: seeded, by picture, of the right width, and no region is paired with itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.metrics.intervals import interval_of_mean, interval_of_pairs, resamples
from mast.metrics.kid import sums_by_owner


def values(n: int, seed: int) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def paired(n: int, seed: int, shift: float) -> torch.Tensor:
    """(n, n): what pairs of n Gaussian samples and their shifted partners add to a kernel distance."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(n, 4, generator=generator, dtype=torch.float64) + s for s in (0.0, shift))
    owner = torch.arange(n)
    across = sums_by_owner(x, y, owner, n)
    return sums_by_owner(x, x, owner, n) + sums_by_owner(y, y, owner, n) - across - across.T


def test_resamples_draw_as_many_as_there_are_and_are_seeded() -> None:
    times = resamples(30, 7)
    assert (times.sum(1) == 30).all() and (times >= 0).all()
    assert times.mean(0).min() > 0.9 and times.mean(0).max() < 1.1  # none is preferred
    assert torch.equal(times, resamples(30, 7)) and not torch.equal(times, resamples(30, 8))


def test_an_interval_of_a_mean_holds_the_truth_as_often_as_it_says() -> None:
    """95 % of the intervals; of squared uniforms, whose mean is 1/3."""
    found = [interval_of_mean(values(40, seed) ** 2, seed) for seed in range(150)]
    assert 0.90 <= sum(low <= 1 / 3 <= high for low, high in found) / len(found) <= 0.985


def test_an_interval_of_pairs_holds_the_truth_as_often_as_it_says() -> None:
    """The truth is what 1,500 samples say; 60 times 40 are asked."""
    truth = sum(float(paired(500, 900 + s, 0.6).sum()) / (500 * 499) for s in range(3)) / 3
    found = [interval_of_pairs(paired(40, seed, 0.6), torch.ones(40), seed) for seed in range(60)]
    held = [low <= truth <= high for low, high in found]
    assert 0.88 <= sum(held) / len(held) <= 1
    assert sum(high - low for low, high in found) / len(found) < 3 * truth  # and it says something


def test_more_pictures_make_it_narrower() -> None:
    widths = [high - low for low, high in (interval_of_mean(values(n, 0), 0) for n in (20, 80, 320))]
    assert widths[0] > 1.5 * widths[1] > 2.25 * widths[2]


@given(st.integers(20, 60), st.integers(0, 200))
def test_the_mean_lies_inside_and_scaling_scales(n: int, seed: int) -> None:
    numbers = values(n, seed)
    low, high = interval_of_mean(numbers, 0)
    assert low <= float(numbers.mean()) <= high
    assert interval_of_mean(3 * numbers + 1, 0) == pytest.approx((3 * low + 1, 3 * high + 1))


def test_pictures_of_several_regions_are_drawn_whole() -> None:
    """Three equal regions in each picture say no more than one: the interval is the same."""
    numbers = values(25, 1)
    one, three = interval_of_mean(numbers, 0), interval_of_mean(3 * numbers, 0, torch.full((25,), 3))
    assert three == pytest.approx(one)


def test_equal_numbers_leave_no_doubt() -> None:
    assert interval_of_mean(torch.full((20,), 0.25), 0) == pytest.approx((0.25, 0.25))
    totals = torch.full((20, 20), 0.5, dtype=torch.float64).fill_diagonal_(0)
    assert interval_of_pairs(totals, torch.ones(20), 0) == pytest.approx((0.5, 0.5), abs=0.06)


def test_a_picture_drawn_twice_does_not_meet_itself() -> None:
    """Were k(x, x) counted, the interval of a distance that is 0 would lie above 0."""
    low, high = interval_of_pairs(paired(60, 3, 0.0), torch.ones(60), 0)
    assert low < 0 < high
