"""How sure a figure is: bootstrap intervals over the pictures it was measured on.

All that belongs to a picture (its distance to the photo, its regions) is drawn together. The draws depend on
the seed and the number of pictures alone, so every method measured on the same pictures has the same ones.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

RESAMPLES = 1000
SHARE = 0.95  # of the resamples that lie inside
FEWEST = 20  # pictures below which an interval would promise what it cannot keep

Interval: TypeAlias = "tuple[float, float]"


def resamples(n: int, seed: int, draws: int = RESAMPLES) -> Tensor:
    """(draws, n) float64: how often each of n pictures is drawn when n are drawn with replacement."""
    drawn = np.random.default_rng([seed, n]).multinomial(n, np.full(n, 1 / n), draws)
    return torch.from_numpy(drawn).double()


def interval_of_mean(totals: Tensor, seed: int, sizes: Tensor | None = None) -> Interval:
    """For the mean over all members: totals (n,) of each picture's members, sizes (n,) their number, or 1."""
    totals = totals.double()
    times = resamples(len(totals), seed)
    return _middle(times @ totals / (times @ (torch.ones_like(totals) if sizes is None else sizes.double())))


def interval_of_pairs(totals: Tensor, sizes: Tensor, seed: int) -> Interval:
    """For the mean over all pairs of different members: totals (n, n) of the pairs between two pictures.

    A picture that is drawn twice does not bring the pair of a member with itself, which would pull an
    unbiased kernel distance upwards.
    """
    sizes = sizes.double()
    pairs = torch.outer(sizes, sizes) - sizes.diag()
    times = resamples(len(sizes), seed)
    return _middle(((times @ totals.double()) * times).sum(1) / ((times @ pairs) * times).sum(1))


def _middle(values: Tensor) -> Interval:
    low, high = np.quantile(values.numpy(), [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)
