"""LAMA (Sec. 3.3): a mask becomes attention mass, exactly."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core import lama
from mast.core.attention import Partition, dense_logits, logits


def scene(seed: int, keys: list[int], heads: int = 2, queries: int = 12, dim: int = 16):
    """Styles and content (last) with their own key counts, and masks (N, q): soft, hard and absent ones."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    blended = draw(heads, queries, dim)
    styles = [Partition(blended, draw(heads, k, dim), draw(heads, k, dim)) for k in keys[:-1]]
    content = Partition(draw(heads, queries, dim), draw(heads, keys[-1], dim), draw(heads, keys[-1], dim))
    masks = torch.rand(len(keys), queries, generator=generator).softmax(0)[:-1]
    masks[:, 0] = 0
    if len(styles):
        masks[:, 1] = torch.eye(len(styles))[0]
    return styles, content, masks


def realised(joint: torch.Tensor, keys: list[int]) -> torch.Tensor:
    """(partitions, h, q): how much of each row's softmax falls on each partition."""
    return torch.stack([part.sum(-1) for part in joint.softmax(-1).split(keys, -1)])


key_counts = st.lists(st.integers(1, 30), min_size=2, max_size=5)
pis = st.one_of(st.just(1.0), st.floats(0.01, 1.0))


@given(seed=st.integers(0, 10**6), keys=key_counts, pi=pis)
def test_realised_masses_equal_their_targets(seed, keys, pi):
    styles, content, masks = scene(seed, keys)
    targets = lama.target_masses(masks, pi)
    found = realised(dense_logits(styles, content, targets), keys)
    assert float((found - targets.unsqueeze(1)).abs().max()) < 1e-6


@given(seed=st.integers(0, 10**6), keys=key_counts)
def test_no_mask_means_no_mass_at_all(seed, keys):
    styles, content, masks = scene(seed, keys)
    found = realised(dense_logits(styles, content, lama.target_masses(masks, 0.9)), keys)
    assert torch.all(found[:-1, :, 0] == 0), "a query outside every region sees the content only"
    assert torch.all(found[1:-1, :, 1] == 0), "a query inside one region sees no other style"


def test_pi_of_one_leaves_nothing_to_the_content_inside_a_full_mask():
    styles, content, masks = scene(0, [5, 7, 6])
    targets = lama.target_masses(masks, 1.0)
    joint = dense_logits(styles, content, targets)
    found = realised(joint, [5, 7, 6])
    assert torch.all(found[-1, :, 1] == 0) and torch.all(found[0, :, 1] == 1)
    assert not joint.isnan().any()


@given(seed=st.integers(0, 10**6), keys=key_counts)
def test_attention_inside_a_partition_is_unchanged(seed, keys):
    styles, content, masks = scene(seed, keys)
    joint = dense_logits(styles, content, lama.target_masses(masks, 0.9))
    for part, partition, mass in zip(
        joint.split(keys, -1), [*styles, content], lama.target_masses(masks, 0.9), strict=True
    ):
        seen = mass > 0
        torch.testing.assert_close(
            part[:, seen].softmax(-1), logits(partition)[:, seen].softmax(-1), atol=1e-6, rtol=1e-5
        )


@given(seed=st.integers(0, 10**6), keys=key_counts, pi=st.floats(0.05, 0.95))
def test_the_bias_of_the_paper_is_the_offset_up_to_the_shift_of_the_content(seed, keys, pi):
    styles, content, masks = scene(seed, keys)
    log_targets = lama.target_masses(masks, pi).log()
    log_z = torch.stack([logits(part).logsumexp(-1) for part in (*styles, content)])
    offsets = lama.offsets(log_targets, log_z)
    torch.testing.assert_close(
        lama.bias(log_targets, log_z), offsets[:-1] - offsets[-1:], atol=1e-5, rtol=1e-5
    )


@given(seed=st.integers(0, 10**6), keys=key_counts)
def test_after_the_offsets_a_row_is_normalised(seed, keys):
    styles, content, masks = scene(seed, keys)
    parts = [logits(part) for part in (*styles, content)]
    log_targets = lama.target_masses(masks, 0.9).log()
    shifts = lama.offsets(log_targets, torch.stack([part.logsumexp(-1) for part in parts]))
    joint = torch.cat([part + shift.unsqueeze(-1) for part, shift in zip(parts, shifts, strict=True)], -1)
    torch.testing.assert_close(joint.logsumexp(-1), torch.zeros(joint.shape[:2]), atol=1e-5, rtol=0)


def test_without_lama_each_partition_takes_its_raw_share():
    styles, content, _ = scene(0, [5, 9, 6])
    found = realised(dense_logits(styles, content, None), [5, 9, 6])
    z = torch.stack([logits(part).exp().sum(-1) for part in (*styles, content)])
    torch.testing.assert_close(found, z / z.sum(0))


@given(seed=st.integers(0, 10**6), pi=pis, n=st.integers(0, 4))
def test_targets_are_masses(seed, pi, n):
    masks = torch.rand(n + 1, 9, generator=torch.Generator().manual_seed(seed)).softmax(0)[:n]
    targets = lama.target_masses(masks, pi)
    assert targets.shape == (n + 1, 9) and float(targets.min()) >= 0
    torch.testing.assert_close(targets.sum(0), torch.ones(9))
    torch.testing.assert_close(targets[:n], pi * masks)


def test_the_floor_of_the_papers_code_can_be_had():
    masks = torch.tensor([[0.0, 1.0]])
    assert lama.target_masses(masks)[0, 0] == 0
    assert lama.target_masses(masks, 0.9, 1e-6)[0].tolist() == pytest.approx([1e-6, 0.9])


@given(st.integers(1, 4), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]), st.integers(0, 100))
def test_masses_sum_to_one_whatever_the_floor(styles, floor, seed):
    masks = torch.rand(styles, 9, generator=torch.Generator().manual_seed(seed))
    masks = masks / masks.sum(0).clamp_min(1)
    masks[:, 0] = 0
    targets = lama.target_masses(masks, 0.9, floor)
    torch.testing.assert_close(targets.sum(0), torch.ones(9), atol=1e-6, rtol=0)
    assert float(targets.min()) >= floor / (1 + styles * floor) - 1e-9
