"""Kernel distance of two sets of features (KID, https://arxiv.org/abs/1801.01401).

The squared maximum mean discrepancy under the kernel k(x, y) = (x.y / d + 1)^3. The estimate is unbiased: its
mean does not depend on the number of samples, so it says something where FID does not. It may fall below 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..job import InputError

ROWS = 1024  # of a kernel matrix that exist at once


def kernel(x: Tensor, y: Tensor) -> Tensor:
    """(n, d), (m, d) -> (n, m) float64."""
    return (x.double() @ y.double().T / x.shape[1] + 1) ** 3


def kid(x: Tensor, y: Tensor) -> float:
    """KID of two independent sets (n, d) and (m, d), over all their members at once."""
    n, m = len(x), len(y)
    if min(n, m) < 2:
        raise InputError(f"a kernel distance needs at least 2 samples on each side; there are {n} and {m}")
    within = [
        float(sums_by_owner(z, z, torch.zeros(len(z), dtype=torch.long), 1)) / (len(z) * (len(z) - 1))
        for z in (x, y)
    ]
    return sum(within) - 2 * float(kernel(x, y).mean())


def sums_by_owner(x: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """(owners, owners): the sum of k(x_i, y_j), i != j, over the members i of one owner and j of another.

    x, y: (n, d), member i of the one belonging to member i of the other; owner: (n,), whose member i is.
    """
    total = torch.zeros(owners, owners, dtype=torch.float64)
    for first in range(0, len(x), ROWS):
        rows = kernel(x[first : first + ROWS], y)
        rows.diagonal(first).zero_()
        by_column = torch.zeros(len(rows), owners, dtype=torch.float64).index_add_(1, owner, rows)
        total.index_add_(0, owner[first : first + ROWS], by_column)
    return total
