"""The Frechet distance: analytic values, scipy's square root, few and many samples, streaming."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.job import InputError
from mast.metrics.fid import (
    Statistics,
    artfid,
    fid,
    frechet_from_moments,
    frechet_terms,
    statistics,
    symmetric_root,
)


def normal(n: int, d: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, generator=generator, dtype=torch.float64) / d**0.5
    return torch.randn(n, d, generator=generator, dtype=torch.float64) @ mixing * scale


def of(vectors: torch.Tensor) -> Statistics:
    return statistics([vectors])


@pytest.mark.parametrize("n", [3, 20, 63, 64, 65, 500])
def test_identical_sets_are_at_distance_zero(n: int) -> None:
    vectors = normal(n, 64)
    assert fid(of(vectors), of(vectors)) < 1e-9


@pytest.mark.parametrize("n", [20, 500])
def test_a_shift_costs_its_squared_length(n: int) -> None:
    vectors = normal(n, 64)
    shift = torch.linspace(-1, 1, 64, dtype=torch.float64)
    assert fid(of(vectors), of(vectors + shift)) == pytest.approx(float(shift.square().sum()), rel=1e-9)


@pytest.mark.parametrize("n", [20, 500])
def test_the_two_terms_are_of_the_means_and_of_the_covariances(n: int) -> None:
    a, b = of(normal(n, 64, 1)), of(3 * normal(n, 64, 1) + 0.5)
    mean, trace = frechet_terms(a.mean(), a.factor(), b.mean(), b.factor())
    assert mean == pytest.approx(float((a.mean() - b.mean()).square().sum()))
    assert trace == pytest.approx(4 * float(a.covariance().trace()), rel=1e-6)  # (3 - 1)^2
    assert mean + trace == pytest.approx(fid(a, b))


def test_diagonal_gaussians_have_the_analytic_distance() -> None:
    a, b = torch.rand(30).double() + 0.1, torch.rand(30).double() + 0.1
    mean = torch.randn(30).double()
    expected = float(mean.square().sum() + (a.sqrt() - b.sqrt()).square().sum())
    got = frechet_from_moments(torch.zeros(30), a.diag(), mean, b.diag())
    assert got == pytest.approx(expected, rel=1e-9)


def test_scaled_samples_have_the_analytic_distance() -> None:
    vectors = normal(5000, 32)
    trace = float(of(vectors).covariance().trace())
    mean = float(of(vectors).mean().square().sum())
    assert fid(of(vectors), of(3 * vectors)) == pytest.approx(4 * trace + 4 * mean, rel=1e-9)


@pytest.mark.parametrize("n", [40, 400])
def test_equals_scipys_square_root(n: int) -> None:
    linalg = pytest.importorskip("scipy.linalg", reason="scipy comes with the extra `parity`")
    a, b = of(normal(n, 64, 1)), of(normal(n, 64, 2, 1.5) + 0.3)
    s, t = a.covariance().numpy(), b.covariance().numpy()
    root = linalg.sqrtm(s @ t).real
    expected = float((a.mean() - b.mean()).square().sum()) + (s + t - 2 * root).trace()
    assert fid(a, b) == pytest.approx(expected, rel=1e-3 if n < 64 else 1e-8)


def test_few_samples_and_their_moments_agree() -> None:
    a, b = normal(40, 64, 1), normal(50, 64, 2) + 0.1
    moments = frechet_from_moments(a.mean(0), torch.cov(a.T), b.mean(0), torch.cov(b.T))
    assert fid(of(a), of(b)) == pytest.approx(moments, rel=1e-6)


def test_streaming_is_the_same_as_all_at_once() -> None:
    vectors = normal(300, 64) + 100
    streamed = statistics(vectors.split(7))
    assert streamed.kept == [] and streamed.n == 300
    torch.testing.assert_close(streamed.mean(), vectors.mean(0))
    torch.testing.assert_close(streamed.covariance(), torch.cov(vectors.T), rtol=1e-9, atol=1e-12)
    few = statistics(vectors[:30].split(7))
    torch.testing.assert_close(few.covariance(), torch.cov(vectors[:30].T), rtol=1e-9, atol=1e-12)


def test_small_variances_survive_large_means() -> None:
    vectors = normal(300, 16, scale=1e-4) + 1e4
    torch.testing.assert_close(
        statistics(vectors.split(9)).covariance(), torch.cov(vectors.T), rtol=1e-5, atol=1e-14
    )


def test_counting_a_vector_twice_is_giving_it_twice() -> None:
    vectors = normal(20, 8)
    counted, given_twice = Statistics(8), Statistics(8)
    counted.add(vectors, 2)
    given_twice.add(torch.cat([vectors, vectors]))
    torch.testing.assert_close(counted.covariance(), given_twice.covariance())


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 1000))
def test_singular_covariances_give_finite_symmetric_distances(n: int, m: int, seed: int) -> None:
    a, b = of(normal(n, 24, seed)), of(normal(m, 24, seed + 1))
    value = fid(a, b)
    assert 0 <= value < 1e6
    assert value == pytest.approx(fid(b, a), rel=1e-6, abs=1e-9)


def test_inceptions_dimensions_with_few_pictures() -> None:
    a, b = of(torch.rand(30, 2048)), of(torch.rand(40, 2048))
    assert 0 < fid(a, b) < 2048


def test_one_picture_has_no_covariance() -> None:
    with pytest.raises(InputError, match="at least 2"):
        fid(of(normal(1, 8)), of(normal(5, 8)))
    with pytest.raises(InputError, match="no pictures"):
        statistics([])


def test_the_symmetric_root_squares_back() -> None:
    covariance = of(normal(300, 40)).covariance()
    root = symmetric_root(covariance)
    torch.testing.assert_close(root @ root, covariance, rtol=1e-9, atol=1e-12)


def test_artfid_is_the_papers_product() -> None:
    assert artfid(8.656, 0.531) == pytest.approx(14.78, abs=0.005)
