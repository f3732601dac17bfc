"""Masses, entropy and sharpness without the joint map equal those of the joint map."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.analysis.rows import correlation, joint_entropy, joint_masses, lama_shift, moments, sharpness
from mast.core import lama, sts
from mast.core.attention import Partition, dense_attention, dense_logits, row_statistics


def scene(seed: int, styles: int, heads: int = 2, queries: int = 20, keys: int = 24, dim: int = 8):
    """Partitions of different sizes, and masks that tile most of the picture, some cells shared."""
    draw = torch.Generator().manual_seed(seed)
    parts = [
        Partition(
            2 * torch.randn(heads, queries, dim, generator=draw),
            2 * torch.randn(heads, keys + 3 * g, dim, generator=draw),
            torch.randn(heads, keys + 3 * g, dim, generator=draw),
        )
        for g in range(styles + 1)
    ]
    masks = torch.nn.functional.one_hot(torch.arange(queries) % (styles + 1), styles + 1).float().T[:styles]
    masks[:, 3] = 1 / styles
    return parts, lama.target_masses(masks, 0.9)


def dense_masses(parts, masses, tau):
    attention = (tau.view(-1, 1, 1) * dense_logits(parts[:-1], parts[-1], masses)).softmax(-1)
    return torch.stack([piece.sum(-1) for piece in attention.split([p.key.shape[1] for p in parts], -1)])


def dense_entropy(logits: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(logits.softmax(-1)).sum(-1)


@given(st.integers(0, 500), st.integers(1, 4), st.floats(0.5, 4))
def test_masses_equal_the_dense_sums(seed: int, styles: int, factor: float):
    parts, masses = scene(seed, styles)
    tau, one = torch.tensor([factor, 1.0]), torch.ones(2)
    assert torch.allclose(
        joint_masses(moments(parts, one), 0.0, one), dense_masses(parts, None, one), atol=1e-5
    )
    shift, _ = lama_shift(parts, masses)
    found = joint_masses(moments(parts, tau, masses > 0), shift, tau)
    assert torch.allclose(found, dense_masses(parts, masses, tau), atol=1e-5)


@given(st.integers(0, 500), st.integers(1, 4), st.floats(0.5, 4))
def test_entropy_equals_the_dense_one(seed: int, styles: int, factor: float):
    parts, masses = scene(seed, styles)
    tau = torch.tensor([factor, 1.0])
    shift, _ = lama_shift(parts, masses, row_statistics(parts[-1].query, parts[-1].key))
    found = joint_entropy(moments(parts, tau, masses > 0), shift, tau)
    expected = dense_entropy(tau.view(-1, 1, 1) * dense_logits(parts[:-1], parts[-1], masses))
    assert torch.allclose(found, expected, atol=1e-4)
    assert float(found.min()) >= -1e-4


def test_entropy_of_flat_attention_is_the_log_of_its_keys():
    flat = Partition(torch.zeros(1, 4, 8), torch.randn(1, 50, 8), torch.randn(1, 50, 8))
    one = torch.ones(1)
    assert joint_entropy(moments([flat], one), 0.0, one).numpy() == pytest.approx(math.log(50), abs=1e-5)
    assert joint_entropy(moments([flat, flat], one), 0.0, one).numpy() == pytest.approx(
        math.log(100), abs=1e-5
    )


@given(st.integers(0, 500), st.integers(1, 3), st.floats(0.8, 5))
def test_sharpness_is_the_mean_log_peak(seed: int, styles: int, factor: float):
    parts, masses = scene(seed, styles)
    tau = torch.tensor([factor, 1.0])
    joint = dense_logits(parts[:-1], parts[-1], masses)
    expected = sts.log_peak(tau.view(-1, 1, 1) * joint).mean(-1)
    assert torch.allclose(sharpness(parts, masses)(tau), expected, atol=1e-4)


@given(st.integers(0, 500), st.integers(1, 4))
def test_lama_realises_its_targets(seed: int, styles: int):
    parts, masses = scene(seed, styles)
    shift, _ = lama_shift(parts, masses)
    one = torch.ones(2)
    found = joint_masses(moments(parts, one), shift, one)
    assert float((found - masses.unsqueeze(1)).abs().max()) < 1e-5


def test_a_partition_without_any_query_gets_nothing():
    parts, masses = scene(0, 2)
    masses = torch.stack([0 * masses[0], masses[0] + masses[1], masses[2]])
    shift, _ = lama_shift(parts, masses)
    one = torch.ones(2)
    found = joint_masses(moments(parts, one, masses > 0), shift, one)
    assert float(found[0].max()) == 0 and torch.allclose(found.sum(0), torch.ones(2, 20))
    assert torch.isfinite(joint_entropy(moments(parts, one, masses > 0), shift, one)).all()


def test_the_masses_are_those_of_the_attention_that_paints():
    """Values that say where they come from: the attention's output is then its masses."""
    parts, masses = scene(4, 3)
    marked = [Partition(p.query, p.key, torch.zeros_like(p.key)) for p in parts]
    for g, part in enumerate(marked):
        part.value[..., g] = 1
    tau = torch.tensor([2.5, 1.0])
    output = dense_attention(marked[:-1], marked[-1], masses, lambda gap: tau).output
    shift, _ = lama_shift(parts, masses)
    found = joint_masses(moments(parts, tau, masses > 0), shift, tau)
    assert torch.allclose(found, output.permute(2, 0, 1)[:4], atol=1e-5)


def test_correlation_knows_pearson_and_what_does_not_vary():
    a = torch.tensor([[1.0, 2, 3, 4], [1, 1, 1, 1], [1, 2, 3, 4]])
    b = torch.tensor([[2.0, 4, 6, 8], [1, 2, 3, 4], [4, 3, 2, 1]])
    found = correlation(a, b)
    assert found[0] == pytest.approx(1) and found[2] == pytest.approx(-1) and math.isnan(found[1])
