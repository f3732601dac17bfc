"""STS (Sec. 3.4): as sharp as the content's own attention."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core.sts import SD_COEFFICIENTS, TAU_RANGE, log_peak, sharpness_gap, tau_from_gap

seeds = st.integers(0, 10**6)
gaps = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=8)


def rows(seed: int, keys: int, scale: float = 3.0) -> torch.Tensor:
    return scale * torch.randn(2, 5, keys, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(seed=seeds, keys=st.integers(1, 40), tau=st.floats(0.1, 5))
def test_sharpening_never_lowers_the_peak(seed, keys, tau):
    tau = torch.tensor(tau, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(log_peak(tau * rows(seed, keys)).sum(), tau)
    assert float(slope) >= -1e-9


@given(seed=seeds, keys=st.integers(1, 40), low=st.floats(0.1, 5), more=st.floats(0, 5))
def test_a_larger_factor_is_at_least_as_sharp(seed, keys, low, more):
    values = rows(seed, keys)
    assert torch.all(log_peak((low + more) * values) >= log_peak(low * values) - 1e-9)


@given(seed=seeds, keys=st.integers(1, 40))
def test_the_log_peak_is_that_of_the_softmax(seed, keys):
    values = rows(seed, keys)
    torch.testing.assert_close(log_peak(values), values.softmax(-1).amax(-1).log())
    assert float(log_peak(values).max()) <= 0


def test_the_log_peak_survives_logits_that_overflow_an_exponential():
    values = torch.tensor([[1000.0, 1000.0, -1000.0]])
    assert float(log_peak(values)) == pytest.approx(-0.693147, abs=1e-4)


def test_the_gap_is_the_difference_of_means_over_all_queries():
    content, joint = torch.tensor([[-1.0, -3.0]]), torch.tensor([[-2.0, -6.0]])
    assert sharpness_gap(content, joint).tolist() == [2.0]


@given(values=gaps)
def test_tau_stays_inside_its_limits(values):
    tau = tau_from_gap(torch.tensor(values))
    assert float(tau.min()) >= TAU_RANGE[0] and float(tau.max()) <= TAU_RANGE[1]


@given(values=gaps)
def test_tau_never_falls_when_the_gap_grows(values):
    tau = tau_from_gap(torch.tensor(sorted(values)))
    assert torch.all(tau.diff() >= -1e-6)


def test_tau_follows_the_fitted_parabola_between_its_limits():
    a, b, c = SD_COEFFICIENTS
    assert (a, b, c) == (0.08395, 0.43705, 1.00998)
    gap = torch.tensor([0.0, 0.5, 1.0, 2.0, 4.0])
    torch.testing.assert_close(tau_from_gap(gap), a * gap**2 + b * gap + c)
    assert float(tau_from_gap(torch.tensor(10.0))) == 5.0
    assert float(tau_from_gap(torch.tensor(-1.0))) == 1.0


@pytest.mark.parametrize("gap", [-2.61, -5.0, -10.0, -100.0])
def test_left_of_the_parabolas_turn_the_factor_is_the_lower_limit(gap):
    assert float(tau_from_gap(torch.tensor(gap))) == 1.0


def test_coefficients_and_limits_are_open_to_other_models():
    gap = torch.tensor([-3.0, 0.0, 1.0, 9.0])
    assert tau_from_gap(gap, (0.0, 1.0, 2.0), (0.5, 3.5)).tolist() == [0.5, 2.0, 3.0, 3.5]
    assert tau_from_gap(torch.tensor([-4.0]), (1.0, 2.0, 0.0), (0.0, 9.0)).tolist() == [0.0]
