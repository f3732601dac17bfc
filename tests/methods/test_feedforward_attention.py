"""The attention that AdaAttN and StyleMixer share: exact in any chunks, only over cells that count."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.methods.feedforward.attention import attended_mean, attended_statistics, covered, normalise, touched


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 6), st.integers(0, 999), st.integers(1, 600))
def test_statistics_are_those_of_the_dense_map_whatever_the_chunks(queries, count, channels, seed, limit):
    torch.manual_seed(seed)
    query, key, value = torch.randn(queries, 3), torch.randn(count, 3), torch.randn(count, channels)
    attention = (query @ key.T).exp()
    attention = attention / attention.sum(1, keepdim=True)
    expected_mean = attention @ value
    centred = value.unsqueeze(0) - expected_mean.unsqueeze(1)
    expected = (attention.unsqueeze(2) * centred.square()).sum(1).sqrt()
    for bytes_at_a_time in (limit, 1 << 30):
        mean, deviation = attended_statistics(query, key, value, bytes_at_a_time)
        assert torch.allclose(mean, expected_mean, atol=1e-5)
        # A square root of a difference of squares: noise of 1e-7 becomes 3e-4 near zero.
        assert torch.allclose(deviation, expected, atol=2e-3)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 999))
def test_attention_rows_sum_to_one(queries, count, seed):
    torch.manual_seed(seed)
    mean, deviation = attended_statistics(
        5 * torch.randn(queries, 4), torch.randn(count, 4), torch.ones(count, 2)
    )
    assert torch.allclose(mean, torch.ones_like(mean), atol=1e-5)
    assert deviation.max() < 2e-3


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 999), st.integers(1, 400))
def test_chunks_make_no_difference_to_the_mean_and_its_rows_sum_to_one(queries, count, seed, limit):
    torch.manual_seed(seed)
    query, key, value = torch.randn(queries, 3), torch.randn(count, 3), torch.randn(count, 2)
    value[:, 1] = 1
    mean, fit = attended_mean(query, key, value, limit)
    whole, whole_fit = attended_mean(query, key, value, 1 << 30)
    assert torch.allclose(mean, whole, atol=1e-5) and torch.allclose(fit, whole_fit, atol=1e-5)
    assert torch.allclose(mean[:, 1], torch.ones(queries), atol=1e-5)


def test_normalised_channels_have_mean_0_and_variance_1_over_the_cells_that_count():
    feature = torch.randn(1, 3, 4, 5, generator=torch.Generator().manual_seed(1)) * 7 + 3
    cells = torch.tensor([0, 3, 4, 9, 17])
    for chosen in (None, cells):
        seen = normalise(feature, chosen).flatten(2)
        seen = seen if chosen is None else seen[..., chosen]
        assert torch.allclose(seen.mean(2), torch.zeros(1, 3), atol=1e-5)
        assert torch.allclose(seen.var(2), torch.ones(1, 3), atol=1e-4)
    assert torch.equal(normalise(feature, torch.tensor([7])).flatten(2)[..., 7], torch.zeros(1, 3))


def test_cells_touched_and_covered():
    feature, mask = torch.empty(1, 1, 2, 3), torch.zeros(8, 12)
    mask[:, :6] = 1  # covers the first column of cells, half of the second
    mask[:4, 8] = 1  # touches one more
    assert touched(mask, feature).tolist() == [0, 1, 2, 3, 4]
    assert covered(mask, feature).tolist() == [0, 1, 3, 4]
    assert touched(torch.ones(8, 12), feature) is None and covered(torch.ones(8, 12), feature) is None
