"""Attention over several sources of keys at once: N styles and the content, in one softmax (Sec. 3.1, 3.3, 3.4).

`dense_attention` writes the joint map down as the paper does and is the reference. `joint_attention` gives the same
numbers without that map, from three quantities per partition g and query: the largest logit m_g, the logsumexp z_g, and
ordinary attention at temperature tau. With the shift c_g of LAMA (log pi_g - z_g; 0 without LAMA):

    log p_max = max_g (c_g + m_g) - logsumexp_g (c_g + z_g)
    log w_g   = tau c_g + logsumexp_j (tau l_gj)
    output    = sum_g softmax_g(log w_g) Attention(tau q_g, K_g, V_g)      ==  softmax(tau L) V

A partition is only looked at for the queries that give it any mass, so N regions that tile the picture cost as much
as one that fills it.
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

CHUNK_BYTES = (
    8 << 20
)  # logits looked at in one go while collecting row statistics: about what a core's cache holds


@dataclass(frozen=True)
class Partition:
    """One source: its queries (h, q, d), keys and values (h, k, d). Key counts may differ between partitions."""

    query: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class RowStatistics:
    """Per head and query, each (h, q) float32: the logsumexp of the logits, and the log of the peak probability."""

    log_z: Tensor
    log_peak: Tensor


@dataclass(frozen=True)
class Joint:
    """output: (h, q, d); tau: (h,) the factor used; gap: (h,) the sharpness gap, where it was needed."""

    output: Tensor
    tau: Tensor
    gap: Tensor | None


# ------------------------------------------------------------------------------------------------ the reference


def logits(partition: Partition) -> Tensor:
    """L = Q K^T / sqrt(d) in float32; (h, q, k)."""
    return (
        partition.query.float() @ partition.key.float().transpose(1, 2) / math.sqrt(partition.query.shape[-1])
    )


def dense_logits(styles: Sequence[Partition], content: Partition, masses: Tensor | None) -> Tensor:
    """The joint logits (h, q, sum of keys) of Eq. 1, or of Eq. 6 when target masses (N + 1, q), content last, are given."""
    parts = [logits(partition) for partition in (*styles, content)]
    if masses is not None:
        log_targets = lama.log_masses(masses)
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
    gap, factor = None, tau
    if callable(tau):
        gap = sts.sharpness_gap(sts.log_peak(logits(content)), sts.log_peak(joint))
        factor = tau(gap)
    factor = torch.as_tensor(factor, dtype=joint.dtype, device=joint.device).expand(joint.shape[0])
    attention = (factor.view(-1, 1, 1) * joint).softmax(-1)
    values = torch.cat([partition.value.float() for partition in (*styles, content)], 1)
    return Joint((attention @ values).to(content.value.dtype), factor, gap)


# ------------------------------------------------------------------------------------------------ without the joint map


def row_statistics(query: Tensor, key: Tensor) -> RowStatistics:
    """logsumexp and log peak of every row of Q K^T / sqrt(d), over query chunks; (h, q, d), (h, k, d)."""
    heads, count, dim = query.shape
    keys = key.shape[1]
    scaled, transposed = query.float() / math.sqrt(dim), key.float().transpose(1, 2)
    log_z = torch.empty(heads, count, device=query.device)
    log_peak = torch.empty_like(log_z)
    rows = max(1, min(count, CHUNK_BYTES // (4 * keys * heads)))
    buffer = torch.empty(heads, rows, keys, device=query.device)
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        part = (
            buffer[:, : stop - start] if stop - start == rows else torch.empty_like(buffer[:, : stop - start])
        )
        torch.bmm(scaled[:, start:stop], transposed, out=part)
        peak = part.amax(-1)
        total = part.sub_(peak.unsqueeze(-1)).exp_().sum(-1).log_()
        torch.neg(total, out=log_peak[:, start:stop])
        torch.add(peak, total, out=log_z[:, start:stop])
    return RowStatistics(log_z, log_peak)


def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Ordinary attention and the logsumexp of its logits: (h, q, d), (h, k, d), (h, k, d) -> (h, q, d), (h, q).

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


def joint_attention(
    styles: Sequence[Partition],
    content: Partition,
    masses: Tensor | None = None,
    tau: TauRule = 1.0,
    content_statistics: RowStatistics | None = None,
) -> Joint:
    """Equal to `dense_attention`, without the joint map. masses: (N + 1, q) targets, content last, or None (Eq. 1).

    content_statistics: `row_statistics` of the content partition when they are known already.
    """
    heads, count, _ = content.query.shape
    adaptive = callable(tau)
    partitions = [*styles, content]
    owned = [_owned_rows(None if masses is None else masses[g]) for g in range(len(partitions))]
    shift = torch.full((len(partitions), heads, count), -math.inf, device=content.query.device)
    # Row statistics fix the masses (z_g) and the sharpness (peaks); at a fixed tau of 1 neither is needed.
    needs_statistics = adaptive or (masses is not None and tau != 1.0)
    joint_peak = torch.full((heads, count), -math.inf, device=content.query.device)
    joint_z = torch.full_like(joint_peak, -math.inf)
    log_targets = None if masses is None else lama.log_masses(masses)
    for g, (partition, rows) in enumerate(zip(partitions, owned, strict=True)):
        if rows is not None and len(rows) == 0:
            continue
        mass = None if log_targets is None else _take(log_targets[g], rows)
        if not needs_statistics:
            _put(shift[g], rows, torch.zeros(1, device=shift.device) if mass is None else mass)
            continue
        if partition is content and content_statistics is not None:
            found = RowStatistics(
                _take(content_statistics.log_z, rows), _take(content_statistics.log_peak, rows)
            )
        else:
            found = row_statistics(_take(partition.query, rows, 1), partition.key)
        moved = torch.zeros_like(found.log_z) if mass is None else mass - found.log_z
        _put(shift[g], rows, moved)
        _put(joint_peak, rows, torch.maximum(_take(joint_peak, rows), moved + found.log_z + found.log_peak))
        if mass is None:
            joint_z = torch.logaddexp(joint_z, found.log_z)
        elif partition is content and content_statistics is None and rows is None:
            content_statistics = found
    gap = None
    if callable(tau):
        if content_statistics is None:
            content_statistics = row_statistics(content.query, content.key)
        if masses is None:
            joint_peak = joint_peak - joint_z
        gap = sts.sharpness_gap(content_statistics.log_peak, joint_peak)
        factor = tau(gap)
    else:
        factor = torch.full((heads,), float(tau), device=content.query.device)
    return Joint(
        _mix(partitions, owned, shift, factor, exact_masses=not needs_statistics and masses is not None),
        factor,
        gap,
    )


def _mix(
    partitions: Sequence[Partition],
    owned: Sequence[Tensor | None],
    shift: Tensor,
    tau: Tensor,
    exact_masses: bool,
) -> Tensor:
    """sum_g softmax_g(log w_g) Attention(tau q_g, K_g, V_g). With `exact_masses` (tau is 1) log w_g is log pi_g itself."""
    scale = tau.view(-1, 1, 1)
    log_weight = shift if exact_masses else shift * scale.view(-1, 1)
    outputs: list[Tensor | None] = []
    for g, (partition, rows) in enumerate(zip(partitions, owned, strict=True)):
        if rows is not None and len(rows) == 0:
            outputs.append(None)
            continue
        query = _take(partition.query, rows, 1)
        output, log_z = attend((query * scale).to(query.dtype), partition.key, partition.value)
        outputs.append(output)
        if not exact_masses:
            _put(log_weight[g], rows, _take(log_weight[g], rows) + log_z)
    weight = log_weight.softmax(0)
    result = torch.zeros_like(partitions[-1].query)
    for g, (output, rows) in enumerate(zip(outputs, owned, strict=True)):
        if output is None:
            continue
        part = output * _take(weight[g], rows).unsqueeze(-1)
        if rows is None:
            result += part
        else:
            result.index_add_(1, rows, part.to(result.dtype))
    return result


def _owned_rows(mass: Tensor | None) -> Tensor | None:
    """The queries that give a partition any mass; None means all of them."""
    if mass is None:
        return None
    rows = mass.nonzero().squeeze(1)
    return None if len(rows) == len(mass) else rows


def _take(values: Tensor, rows: Tensor | None, dim: int = -1) -> Tensor:
    return values if rows is None else values.index_select(dim, rows)


def _put(target: Tensor, rows: Tensor | None, values: Tensor) -> None:
    if rows is None:
        target.copy_(values.expand_as(target))
    else:
        target[:, rows] = values
