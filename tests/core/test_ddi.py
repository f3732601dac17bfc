"""DDI (Sec. 3.5): the filter as the paper writes it, and a weight that knows when detail is missing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core.ddi import discrepancy, gaussian_high_pass, high_pass, inject, transmission

seeds = st.integers(0, 10**6)
sides = st.integers(1, 17)


def maps(seed: int, h: int, w: int, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, h, w, generator=torch.Generator().manual_seed(seed))


def as_written(feature: torch.Tensor, r: float) -> torch.Tensor:
    """Eq. 42-45 word by word: the full complex transform, centred, masked, and back."""
    h, w = feature.shape[-2:]
    u = torch.arange(h, dtype=torch.float64)[:, None] - h // 2
    v = torch.arange(w, dtype=torch.float64)[None, :] - w // 2
    sigma = r * min(h, w)
    mask = 1 - torch.exp(-(u**2 + v**2) / (2 * (sigma**2 + 1e-8)))
    spectrum = torch.fft.fftshift(torch.fft.fft2(feature.double(), norm="ortho"), dim=(-2, -1))
    back = torch.fft.ifft2(torch.fft.ifftshift(spectrum * mask, dim=(-2, -1)), norm="ortho")
    assert float(back.imag.abs().max()) < 1e-9
    return back.real.float()


def test_the_filter_lets_through_what_the_paper_says():
    assert transmission(0.3) == pytest.approx(0.38, abs=0.005)
    assert transmission(0.9) == pytest.approx(0.014, abs=0.0005)
    assert transmission(0.1) == 1.0


@pytest.mark.parametrize("r", [0.2, 0.3, 0.5, 0.7, 0.9])
def test_the_filter_is_the_same_on_both_grids(r):
    assert abs(transmission(r, 32) - transmission(r, 64)) < 0.0005


@given(seed=seeds, h=sides, w=sides, r=st.floats(0.05, 1.0))
def test_the_half_transform_equals_the_full_one_at_any_size(seed, h, w, r):
    feature = maps(seed, h, w)
    found = high_pass(feature, r)
    assert found.shape == feature.shape
    torch.testing.assert_close(found, as_written(feature, r), atol=1e-5, rtol=1e-4)


@given(h=sides, w=sides, value=st.floats(-10, 10))
def test_a_constant_map_has_no_detail(h, w, value):
    assert float(high_pass(torch.full((1, 2, h, w), value)).abs().max()) < 1e-4


def test_the_mask_is_zero_at_the_centre_and_grows_outwards():
    mask = gaussian_high_pass(8, 8, 0.3)
    assert mask[4, 4] == 0 and torch.all(mask[4, 4:].diff() > 0) and float(mask.max()) < 1


@given(seed=seeds, h=sides, w=sides)
def test_the_weight_lies_between_0_and_2(seed, h, w):
    omega = discrepancy(maps(seed, h, w), maps(seed + 1, h, w))
    assert omega.shape == (2, 1, 1, 1)
    assert float(omega.min()) >= -1e-6 and float(omega.max()) <= 2 + 1e-6


@given(seed=seeds, scale=st.floats(0.1, 10))
def test_equal_branches_need_nothing_and_opposite_ones_the_most(seed, scale):
    feature = maps(seed, 4, 5)
    torch.testing.assert_close(
        discrepancy(scale * feature, feature), torch.zeros(2, 1, 1, 1), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(discrepancy(-feature, feature), torch.full((2, 1, 1, 1), 2.0))


def test_the_weight_is_one_number_a_sample():
    same, other = maps(0, 4, 4, 1), maps(1, 4, 4, 1)
    omega = discrepancy(torch.cat([same, other]), torch.cat([same, same]))
    assert float(omega[0]) == pytest.approx(0, abs=1e-6) and float(omega[1]) > 0.1


@given(seed=seeds, h=sides, w=sides)
def test_injection_adds_weighted_detail_and_nothing_else(seed, h, w):
    update, content = maps(seed, h, w), maps(seed + 1, h, w)
    cosine = torch.cosine_similarity(update.flatten(1), content.flatten(1)).view(-1, 1, 1, 1)
    expected = update + (1 - cosine) * as_written(content, 0.3)
    torch.testing.assert_close(inject(update, content, 0.3), expected, atol=1e-5, rtol=1e-4)


def test_an_identical_branch_is_left_alone():
    feature = maps(3, 6, 6)
    torch.testing.assert_close(inject(feature, feature), feature, atol=1e-6, rtol=0)


def test_half_precision_comes_back_as_half_precision():
    feature = maps(0, 6, 6).half()
    assert high_pass(feature).dtype == torch.float16
    assert inject(feature, maps(1, 6, 6).half()).dtype == torch.float16
    torch.testing.assert_close(high_pass(feature).float(), high_pass(feature.float()), atol=2e-3, rtol=2e-3)
