"""The partitioned attention against the dense reference: the same numbers without the joint map."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from mast.core import attention as module
from mast.core import lama, sts
from mast.core.attention import (
    Partition,
    attend,
    dense_attention,
    dense_logits,
    joint_attention,
    logits,
    row_statistics,
)

adaptive = partial(sts.tau_from_gap, coefficients=(0.3, 1.0, 1.2))
taus = st.one_of(st.just(1.0), st.floats(0.3, 5.0), st.just(adaptive), st.just(sts.tau_from_gap))
shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "heads": st.integers(1, 4),
        "queries": st.integers(1, 40),
        "dim": st.sampled_from([1, 3, 4, 8, 16, 40]),
        "keys": st.lists(st.integers(1, 50), min_size=1, max_size=5),
        "scale": st.floats(0.1, 2.0),
    }
)


def partitions(seed, heads, queries, dim, keys, scale=1.0):
    """Styles that share one query, and the content with its own; `keys` ends with the content's count."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: scale * torch.randn(*shape, generator=generator)
    blended = draw(heads, queries, dim)
    styles = [Partition(blended, draw(heads, k, dim), draw(heads, k, dim)) for k in keys[:-1]]
    return styles, Partition(
        draw(heads, queries, dim), draw(heads, keys[-1], dim), draw(heads, keys[-1], dim)
    )


@st.composite
def masses(draw, styles: int, queries: int) -> torch.Tensor | None:
    """None, or the target masses of masks that are soft, hard, partly zero, or missing for a whole style."""
    kind = draw(st.sampled_from(["none", "soft", "hard", "empty", "full", "mixed"]))
    if kind == "none":
        return None
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    masks = torch.rand(styles + 1, queries, generator=generator)
    if kind == "soft":
        masks = masks.softmax(0)[:-1]
    elif kind in ("hard", "mixed"):
        masks = (masks == masks.amax(0)).float()[:-1]
    elif kind == "full" and styles:
        masks = torch.nn.functional.one_hot(masks[:-1].argmax(0), styles).T.float()
    else:
        masks = torch.zeros(styles, queries)
    if kind == "mixed":
        masks = masks * torch.rand(styles, queries, generator=generator).round(decimals=1)
        if styles:
            masks[draw(st.integers(0, styles - 1))] = 0
    return lama.target_masses(masks, draw(st.one_of(st.just(1.0), st.floats(0.05, 1.0))))


def assert_same(found, expected):
    torch.testing.assert_close(found.tau, expected.tau, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.output, expected.output, atol=1e-4, rtol=1e-4)
    assert (found.gap is None) == (expected.gap is None)
    if found.gap is not None:
        torch.testing.assert_close(found.gap, expected.gap, atol=1e-4, rtol=1e-4)


@settings(max_examples=150)
@given(shape=shapes, tau=taus, data=st.data())
def test_partitioned_attention_equals_dense_attention(shape, tau, data):
    styles, content = partitions(**shape)
    targets = data.draw(masses(len(styles), shape["queries"]))
    expected = dense_attention(styles, content, targets, tau)
    assert expected.output.isfinite().all()
    assert_same(joint_attention(styles, content, targets, tau), expected)


@given(shape=shapes, tau=taus, data=st.data())
def test_known_content_statistics_change_nothing(shape, tau, data):
    styles, content = partitions(**shape)
    targets = data.draw(masses(len(styles), shape["queries"]))
    known = row_statistics(content.query, content.key)
    without = joint_attention(styles, content, targets, tau)
    assert_same(joint_attention(styles, content, targets, tau, known), without)


@given(shape=shapes, tau=taus, data=st.data())
def test_the_order_of_styles_is_irrelevant(shape, tau, data):
    styles, content = partitions(**shape)
    targets = data.draw(masses(len(styles), shape["queries"]))
    order = data.draw(st.permutations(range(len(styles))))
    turned = None if targets is None else targets[[*order, len(styles)]]
    found = joint_attention([styles[i] for i in order], content, turned, tau)
    assert_same(found, joint_attention(styles, content, targets, tau))


@given(shape=shapes, data=st.data())
def test_at_tau_1_the_output_is_the_mass_weighted_sum_of_plain_attentions(shape, data):
    styles, content = partitions(**shape)
    targets = data.draw(masses(len(styles), shape["queries"]))
    if targets is None:
        targets = lama.target_masses(torch.zeros(len(styles), shape["queries"]))
    plain = torch.stack([logits(part).softmax(-1) @ part.value for part in (*styles, content)])
    expected = (targets[:, None, :, None] * plain).sum(0)
    found = joint_attention(styles, content, targets, 1.0)
    torch.testing.assert_close(found.output, expected, atol=1e-4, rtol=1e-4)


@given(shape=shapes)
def test_without_styles_it_is_the_contents_own_attention(shape):
    _, content = partitions(**shape)
    plain = logits(content).softmax(-1) @ content.value
    for targets in (None, torch.ones(1, shape["queries"])):
        found = joint_attention([], content, targets, sts.tau_from_gap)
        assert float(found.gap.abs().max()) < 1e-4, "as sharp as itself"
        torch.testing.assert_close(
            joint_attention([], content, targets, 1.0).output, plain, atol=1e-4, rtol=1e-4
        )


@given(shape=shapes, data=st.data())
def test_masses_after_an_adaptive_factor_are_the_powers_the_paper_implies(shape, data):
    """Sharpening acts on the biased logits, so the weight of partition g is that of softmax(tau L_LAMA)."""
    styles, content = partitions(**shape)
    targets = data.draw(masses(len(styles), shape["queries"]))
    marked = [
        Partition(part.query, part.key, torch.full_like(part.value, float(g)))
        for g, part in enumerate([*styles, content])
    ]
    found = joint_attention(marked[:-1], marked[-1], targets, adaptive)
    weights = (found.tau.view(-1, 1, 1) * dense_logits(styles, content, targets)).softmax(-1)
    shares = torch.stack([part.sum(-1) for part in weights.split(shape["keys"], -1)])
    expected = (torch.arange(len(marked)).view(-1, 1, 1) * shares).sum(0)
    torch.testing.assert_close(found.output[..., 0], expected, atol=1e-4, rtol=1e-4)


def test_a_style_without_mass_is_never_looked_at():
    styles, content = partitions(0, 2, 9, 8, [5, 6, 7])
    poison = Partition(styles[1].query, torch.full_like(styles[1].key, torch.nan), styles[1].value)
    masks = torch.zeros(2, 9)
    masks[0, :4] = 1
    targets = lama.target_masses(masks, 0.9)
    found = joint_attention([styles[0], poison], content, targets, sts.tau_from_gap)
    assert_same(found, joint_attention(styles, content, targets, sts.tau_from_gap))


def test_a_style_sees_only_the_queries_of_its_region():
    styles, content = partitions(1, 2, 9, 8, [5, 7])
    masks = torch.zeros(1, 9)
    masks[0, :4] = 1
    other = Partition(styles[0].query, styles[0].key + 1, styles[0].value * 2)
    a, b = (
        joint_attention([style], content, lama.target_masses(masks), 1.5).output
        for style in (styles[0], other)
    )
    assert torch.equal(a[:, 4:], b[:, 4:]) and not torch.allclose(a[:, :4], b[:, :4])


@given(shape=shapes, budget=st.sampled_from([1, 500, 4000, 8 << 20]))
def test_row_statistics_do_not_depend_on_the_chunks(shape, budget):
    _, content = partitions(**shape)
    before, module.CPU_CHUNK = module.CPU_CHUNK, budget
    try:
        found = row_statistics(content.query, content.key)
    finally:
        module.CPU_CHUNK = before
    dense = logits(content)
    torch.testing.assert_close(found.log_z, dense.logsumexp(-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.log_peak, sts.log_peak(dense), atol=1e-5, rtol=1e-5)


@given(shape=shapes, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_attend_gives_plain_attention_and_its_logsumexp(shape, dtype):
    _, content = partitions(**shape)
    output, log_z = attend(*(x.to(dtype) for x in (content.query, content.key, content.value)))
    dense = logits(content)
    torch.testing.assert_close(output.float(), dense.softmax(-1) @ content.value, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(log_z.float(), dense.logsumexp(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [100.0, 1000.0])
def test_huge_logits_do_not_overflow(size):
    styles, content = partitions(0, 1, 5, 4, [6, 6], scale=size**0.5)
    targets = lama.target_masses(torch.full((1, 5), 0.5), 0.9)
    found = joint_attention(styles, content, targets, sts.tau_from_gap)
    assert found.output.isfinite().all() and found.tau.isfinite().all()


class Launches(TorchDispatchMode):
    """Counts what a device is asked to compute, by name."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        return function(*args, **(kwargs or {}))


def test_row_statistics_are_chunked_by_device():
    """A 64x64 layer of Stable Diffusion: chunks of a CPU's cache would be 64 times five launches on a GPU."""
    query, key = (torch.empty(8, 4096, 40, device="meta") for _ in range(2))
    with Launches() as there:
        row_statistics(query, key)
    assert there.counts["bmm"] == there.counts["_log_softmax"] == 4
    with Launches() as here:
        row_statistics(torch.zeros(8, 1024, 4), torch.zeros(8, 1024, 4))
    assert here.counts["bmm"] == 4 * 1024 * 8 * 1024 // (8 << 20)
