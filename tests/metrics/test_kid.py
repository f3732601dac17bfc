"""The kernel distance: unbiased whatever n, the same in any order, zero for equal distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.job import InputError
from mast.metrics.kid import kernel, kid, sums_by_owner

D = 6


def normal(n: int, seed: int, shift: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=generator, dtype=torch.float64) + shift


def expected_distance(shift: float) -> float:
    """MMD^2 of N(0, I) and N(shift, I) under (x.y/d + 1)^3, from the moments of x.y.

    For independent Gaussians with means a, b: E (x.y) = a.b, E (x.y)^2 = d + |a|^2 + |b|^2 + (a.b)^2,
    E (x.y)^3 = (a.b)^3 + 3 a.b (|a|^2 + |b|^2 + d + 2) (each factor's cross terms collected).
    """

    def mean(a: float, b: float) -> float:
        dot, squares = a * b * D, (a * a + b * b) * D
        first, second = dot, D + squares + dot**2
        third = dot**3 + 3 * dot * (squares + D + 2)
        return 1 + 3 * first / D + 3 * second / D**2 + third / D**3

    return mean(0, 0) + mean(shift, shift) - 2 * mean(0, shift)


def test_the_estimate_is_unbiased_on_small_gaussians() -> None:
    """Eight against five samples, averaged over many draws, give the distance of the distributions."""
    for shift in (0.0, 0.4):
        values = [kid(normal(8, 2 * seed), normal(5, 2 * seed + 1, shift)) for seed in range(1000)]
        error = float(np.std(values)) / len(values) ** 0.5
        assert np.mean(values) == pytest.approx(expected_distance(shift), abs=4 * error)
    assert error < 0.2 * expected_distance(0.4)  # so that a bias would be seen


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 500), st.randoms(use_true_random=False))
def test_order_and_side_do_not_matter(n: int, m: int, seed: int, random) -> None:
    x, y = normal(n, seed), normal(m, seed + 1, 0.3)
    value = kid(x, y)
    assert value == pytest.approx(kid(y, x))
    order = random.sample(range(n), n)
    assert value == pytest.approx(kid(x[order], y), rel=1e-9, abs=1e-12)


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 500))
def test_sums_by_owner_leave_out_what_belongs_together(n: int, owners: int, seed: int) -> None:
    x, y, owner = normal(n, seed), normal(n, seed + 1), torch.arange(n) % owners
    found = sums_by_owner(x, y, owner, owners)
    for p in range(owners):
        for q in range(owners):
            wanted = sum(
                float(kernel(x[i : i + 1], y[j : j + 1]))
                for i in range(n)
                for j in range(n)
                if i != j and i % owners == p and j % owners == q
            )
            assert float(found[p, q]) == pytest.approx(wanted, abs=1e-9)


def test_rows_at_a_time_give_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, owner = normal(20, 0), normal(20, 1), torch.arange(20) // 3
    whole = sums_by_owner(x, y, owner, 7)
    monkeypatch.setitem(sums_by_owner.__globals__, "ROWS", 6)
    torch.testing.assert_close(sums_by_owner(x, y, owner, 7), whole)


def test_one_sample_has_no_distance() -> None:
    with pytest.raises(InputError, match="at least 2 samples on each side; there are 3 and 1"):
        kid(normal(3, 0), normal(1, 1))
