"""Masses, entropy and sharpness of joint attention, exactly, and without its map.

For softmax(tau l) over one partition two numbers per query are enough: the logsumexp of tau l, which the
fused attention kernel returns, and the mean of tau l under the softmax, which is the query times the
attention's mean key. With the shift c_g of LAMA (log pi_g - log Z_g; 0 without LAMA) the joint attention of
all partitions has

    log w_g = tau c_g + log Z_g(tau)                 masses    w_g / sum w
    entropy = log sum w - sum_g mass_g (tau c_g + mean_g(tau))

so memory is O(tokens x dim), whatever the number of styles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.attention import Partition, RowStatistics, attend, row_statistics


@dataclass(frozen=True)
class Moments:
    """Of softmax(tau l) in every partition, each (g, h, q), content last: the logsumexp of tau l, and the
    mean of tau l.
    """

    log_z: Tensor
    energy: Tensor


def moments(partitions: Sequence[Partition], tau: Tensor, wanted: Tensor | None = None) -> Moments:
    """tau: (h,). wanted: (g, q) bool, the queries for which a partition counts; elsewhere its logsumexp is
    -inf.
    """
    like = partitions[-1].query
    log_z = torch.full((len(partitions), *like.shape[:2]), -math.inf, device=like.device)
    energy = torch.zeros_like(log_z)
    for g, partition in enumerate(partitions):
        rows = slice(None) if wanted is None else wanted[g].nonzero().squeeze(1)
        query = partition.query[:, rows].float() * tau.view(-1, 1, 1)
        if query.shape[1] == 0:
            continue
        mean_key, log_z[g, :, rows] = attend(query, partition.key, partition.key)
        energy[g, :, rows] = (query * mean_key).sum(-1) / math.sqrt(query.shape[-1])
    return Moments(log_z, energy)


def lama_shift(
    partitions: Sequence[Partition], masses: Tensor, content_statistics: RowStatistics | None = None
) -> tuple[Tensor, Tensor]:
    """What LAMA adds to each partition's logits (Eq. 5, see `lama.offsets`), from the row statistics that a
    run itself uses; and the largest shifted logit of each query.

    masses: (g, q) -> (g, h, q), -inf where a mass is 0; and (h, q).
    """
    like = partitions[-1].query
    shift = torch.full((len(partitions), *like.shape[:2]), -math.inf, device=like.device)
    peak = torch.full(like.shape[:2], -math.inf, device=like.device)
    for g, partition in enumerate(partitions):
        rows = masses[g].nonzero().squeeze(1)
        if len(rows) == 0:
            continue
        if content_statistics is not None and g == len(partitions) - 1:
            log_z, log_peak = content_statistics.log_z[:, rows], content_statistics.log_peak[:, rows]
        else:
            found = row_statistics(partition.query[:, rows], partition.key)
            log_z, log_peak = found.log_z, found.log_peak
        shift[g, :, rows] = masses[g, rows].log() - log_z
        peak[:, rows] = torch.maximum(peak[:, rows], shift[g, :, rows] + log_z + log_peak)
    return shift, peak


def joint_masses(found: Moments, shift: Tensor | float, tau: Tensor) -> Tensor:
    """Eq. 14, 22, 39: the mass each partition gets from the joint softmax, (g, h, q), summing to 1 over g."""
    return (tau.view(-1, 1) * shift + found.log_z).softmax(0)


def joint_entropy(found: Moments, shift: Tensor | float, tau: Tensor) -> Tensor:
    """Eq. 38: the entropy of every row of the joint softmax, in nats; (h, q)."""
    scaled = tau.view(-1, 1) * shift
    log_weight = scaled + found.log_z
    total = log_weight.logsumexp(0)
    mass = (log_weight - total).exp()
    inner = torch.where(mass > 0, scaled + found.energy, torch.zeros_like(mass))  # 0 log 0 = 0
    return total - (mass * inner).sum(0)


def sharpness(
    partitions: Sequence[Partition], masses: Tensor, content_statistics: RowStatistics | None = None
) -> Callable[[Tensor], Tensor]:
    """The mean log peak of tau L_LAMA as a function of tau: (h,) -> (h,) (Eq. 34-35)."""
    shift, peak = lama_shift(partitions, masses, content_statistics)

    def mean_log_peak(tau: Tensor) -> Tensor:
        found = moments(partitions, tau, masses > 0)
        total = (tau.view(-1, 1) * shift + found.log_z).logsumexp(0)
        return (tau.view(-1, 1) * peak - total).mean(-1)

    return mean_log_peak


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's, over the last dimension, in float64; NaN where one of the two does not vary."""
    a, b = a.double(), b.double()
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    spread = (a.square().sum(-1) * b.square().sum(-1)).sqrt()
    return torch.where(spread > 1e-12, (a * b).sum(-1) / spread, torch.full_like(spread, math.nan))
