"""Attention over several sources of keys at once: N styles and the content, in one softmax (Sec. 3.1, 3.3,
3.4).

`dense_attention` writes the joint map down as the paper does and is the reference. `joint_attention` gives
the same numbers without that map, from three quantities per partition g and query: the largest logit m_g,
the logsumexp z_g, and ordinary attention at temperature tau. With the shift c_g of LAMA (log pi_g - z_g; 0
without LAMA):

    log p_max = max_g (c_g + m_g) - logsumexp_g (c_g + z_g)
    log w_g   = tau c_g + logsumexp_j (tau l_gj)
    output    = sum_g softmax_g(log w_g) Attention(tau q_g, K_g, V_g)      ==  softmax(tau L) V

A partition is only looked at for the queries that give it any mass, so N regions that tile the picture cost
as much as one that fills it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from . import lama, sts

TauRule: TypeAlias = "float | Callable[[Tensor], Tensor]"
"""A fixed factor, or a function from the sharpness gap of each head (h,) to its factor (h,)."""

# Logits looked at in one go while collecting row statistics: on a CPU about what a core's cache holds; a GPU
# has no such cache, and each chunk costs it five launches.
CPU_CHUNK, GPU_CHUNK = 8 << 20, 128 << 20


@dataclass(frozen=True)
class Partition:
    """One source: its queries (h, q, d), keys and values (h, k, d). Key counts may differ between
    partitions.
    """

    query: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class RowStatistics:
    """Per head and query, each (h, q) float32: the logsumexp of the logits, and the log of the peak
    probability.
    """

    log_z: Tensor
    log_peak: Tensor


@dataclass(frozen=True)
class Joint:
    """output: (h, q, d); tau: (h,) the factor used; gap: (h,) the sharpness gap, where it was needed."""

    output: Tensor
    tau: Tensor
    gap: Tensor | None


# ------------------------------------------------------------ the reference


def logits(partition: Partition) -> Tensor:
    """L = Q K^T / sqrt(d) in float32; (h, q, k)."""
    return (
        partition.query.float() @ partition.key.float().transpose(1, 2) / math.sqrt(partition.query.shape[-1])
    )


def dense_logits(styles: Sequence[Partition], content: Partition, masses: Tensor | None) -> Tensor:
    """The joint logits (h, q, sum of keys) of Eq. 1, or of Eq. 6 when target masses (N + 1, q), content
    last, are given.
    """
    parts = [logits(partition) for partition in (*styles, content)]
    if masses is not None:
        log_targets = masses.log()
        log_z = torch.stack([part.logsumexp(-1) for part in parts])
        bias = torch.cat([lama.bias(log_targets, log_z), torch.zeros_like(log_z[-1:])])
        # Without any content mass Eq. 5 has no finite value; its limit does, see lama.offsets.
        bias = torch.where(log_targets[-1].isneginf(), lama.offsets(log_targets, log_z), bias)
        parts = [part + shift.unsqueeze(-1) for part, shift in zip(parts, bias, strict=True)]
    return torch.cat(parts, -1)


def dense_attention(
    styles: Sequence[Partition], content: Partition, masses: Tensor | None = None, tau: TauRule = 1.0
) -> Joint:
    """softmax(tau L) V with the whole joint map in memory (Eq. 9)."""
    joint = dense_logits(styles, content, masses)
    gap = sts.sharpness_gap(sts.log_peak(logits(content)), sts.log_peak(joint)) if callable(tau) else None
    factor = _factor(tau, gap, joint)
    attention = (factor.view(-1, 1, 1) * joint).softmax(-1)
    values = torch.cat([partition.value.float() for partition in (*styles, content)], 1)
    return Joint((attention @ values).to(content.value.dtype), factor, gap)


def _factor(tau: TauRule, gap: Tensor | None, like: Tensor) -> Tensor:
    """tau of each head, (h,); `like` is any (h, ...) tensor."""
    if callable(tau):
        assert gap is not None
        return tau(gap)
    return torch.full((like.shape[0],), float(tau), device=like.device)


# ------------------------------------------------------------ without the joint map


def row_statistics(query: Tensor, key: Tensor) -> RowStatistics:
    """logsumexp and log peak of every row of Q K^T / sqrt(d), over query chunks; (h, q, d), (h, k, d)."""
    heads, count, dim = query.shape
    keys = key.shape[1]
    scaled, transposed = query.float() / math.sqrt(dim), key.float().transpose(1, 2)
    log_z = torch.empty(heads, count, device=query.device)
    log_peak = torch.empty_like(log_z)
    chunk_bytes = CPU_CHUNK if query.device.type == "cpu" else GPU_CHUNK
    rows = max(1, min(count, chunk_bytes // (4 * keys * heads)))
    for start in range(0, count, rows):
        chunk = slice(start, min(start + rows, count))
        raw = torch.bmm(scaled[:, chunk], transposed)
        normal = raw.log_softmax(-1)  # reads each row once from memory, unlike max, subtract, exp, sum
        log_peak[:, chunk] = normal.amax(-1)
        log_z[:, chunk] = raw[..., 0] - normal[..., 0]
    return RowStatistics(log_z, log_peak)


def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Ordinary attention and the logsumexp of its logits: (h, q, d), (h, k, d), (h, k, d) -> (h, q, d), (h,
    q).

    Uses the fused kernel that returns its logsumexp, where the device has one.
    """
    q, k, v = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    if query.device.type == "cpu" and query.dtype == torch.float32:
        output, log_z = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        return output[0], log_z[0]
    if query.device.type == "cuda":
        output, log_z, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)
        return output[0], log_z[0, :, : query.shape[1]]
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v)[0]
    return output, row_statistics(query, key).log_z


@dataclass
class _Share:
    """A partition as seen by the queries that give it any mass: rows (n,), or None for all of them.

    log_mass: (n,) under LAMA, else None. statistics: (h, n), where they are needed.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    rows: Tensor | None
    log_mass: Tensor | None
    statistics: RowStatistics | None = None

    @property
    def shift(self) -> Tensor:
        """c_g (h, n): what LAMA adds to the partition's logits, 0 without it."""
        assert self.statistics is not None
        log_z = self.statistics.log_z
        return torch.zeros_like(log_z) if self.log_mass is None else self.log_mass - log_z


def joint_attention(
    styles: Sequence[Partition],
    content: Partition,
    masses: Tensor | None = None,
    tau: TauRule = 1.0,
    content_statistics: RowStatistics | None = None,
) -> Joint:
    """Equal to `dense_attention`, without the joint map.

    masses: (N + 1, q) target masses, content last, or None for one softmax over everything (Eq. 1).
    content_statistics: `row_statistics` of the content partition when they are known already.
    """
    *style_shares, own = [_share(partition, masses, g) for g, partition in enumerate((*styles, content))]
    shares = [share for share in (*style_shares, own) if share.query.shape[1] > 0]
    gap = None
    # At a fixed tau of 1 LAMA's masses are the mixing weights themselves: nothing need be known of the rows.
    if callable(tau) or (masses is not None and tau != 1.0):
        if content_statistics is None:
            content_statistics = row_statistics(content.query, content.key)
        for share in shares:
            if share is not own:
                share.statistics = row_statistics(share.query, share.key)
        own.statistics = _restrict(content_statistics, own.rows)
        if callable(tau):
            gap = sts.sharpness_gap(content_statistics.log_peak, _joint_log_peak(shares, content.query))
    factor = _factor(tau, gap, content.query)
    return Joint(_mix(shares, factor, content.query), factor, gap)


def _share(partition: Partition, masses: Tensor | None, g: int) -> _Share:
    if masses is None:
        return _Share(partition.query, partition.key, partition.value, None, None)
    rows: Tensor | None = masses[g].nonzero().squeeze(1)
    if rows is not None and len(rows) == masses.shape[1]:
        rows = None
    log_mass = _take(masses[g], rows).log()
    return _Share(_take(partition.query, rows, 1), partition.key, partition.value, rows, log_mass)


def _joint_log_peak(shares: Sequence[_Share], like: Tensor) -> Tensor:
    """log p_max of the joint rows (h, q): max_g (c_g + m_g) - logsumexp_g (c_g + z_g), the latter 0 under
    LAMA.
    """
    peak = torch.full(like.shape[:2], -math.inf, device=like.device)
    total = torch.full_like(peak, -math.inf)
    for share in shares:
        assert share.statistics is not None
        largest = share.shift + share.statistics.log_z + share.statistics.log_peak
        _put(peak, share.rows, torch.maximum(_take(peak, share.rows), largest))
        if share.log_mass is None:
            total = torch.logaddexp(total, share.statistics.log_z)
    return peak if shares[-1].log_mass is not None else peak - total


def _mix(shares: Sequence[_Share], tau: Tensor, like: Tensor) -> Tensor:
    """sum_g softmax_g(log w_g) Attention(tau q_g, K_g, V_g), (h, q, d).

    log w_g = tau c_g + logsumexp_j(tau l_gj). A share with a mass but no statistics is one at tau = 1:
    log w_g = log pi_g.
    """
    scale = tau.view(-1, 1, 1)
    log_weight = torch.full((len(shares), *like.shape[:2]), -math.inf, device=like.device)
    outputs = []
    for g, share in enumerate(shares):
        output, log_z = attend((share.query * scale).to(share.query.dtype), share.key, share.value)
        if share.statistics is None:
            weight = log_z if share.log_mass is None else share.log_mass.expand_as(log_z)
        else:
            weight = tau.view(-1, 1) * share.shift + log_z
        _put(log_weight[g], share.rows, weight)
        outputs.append(output)
    weights = log_weight.softmax(0).unsqueeze(-1)
    result = torch.zeros_like(like)
    for share, output, weight in zip(shares, outputs, weights, strict=True):
        if share.rows is None:
            result += output * weight
        else:
            result.index_add_(1, share.rows, (output * _take(weight, share.rows, 1)).to(result.dtype))
    return result


def _restrict(statistics: RowStatistics, rows: Tensor | None) -> RowStatistics:
    return RowStatistics(_take(statistics.log_z, rows), _take(statistics.log_peak, rows))


def _take(values: Tensor, rows: Tensor | None, dim: int = -1) -> Tensor:
    return values if rows is None else values.index_select(dim, rows)


def _put(target: Tensor, rows: Tensor | None, values: Tensor) -> None:
    if rows is None:
        target.copy_(values)
    else:
        target[:, rows] = values
