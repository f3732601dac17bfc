"""k-means: points to clusters, the same way every time."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

RESTARTS, ROUNDS = 4, 64

Distances = Callable[[Tensor, Tensor], Tensor]
"""Of points (n, d) and centres (k, d): (n, k)."""


def lloyd(
    points: Tensor, centres: Tensor, rounds: int, distances: Distances = torch.cdist
) -> tuple[Tensor, Tensor]:
    """Lloyd's algorithm from given centres (k, d): labels (n,), and the distance of each point to its centre.

    It ends when no centre moves any more; a centre that nobody is near stays where it is.
    """
    for _ in range(rounds):
        distance, labels = distances(points, centres).min(1)
        sums = torch.zeros_like(centres).index_add_(0, labels, points)
        sizes = torch.bincount(labels, minlength=len(centres)).unsqueeze(1)
        moved = torch.where(sizes > 0, sums / sizes.clamp_min(1), centres)
        still, centres = torch.equal(moved, centres), moved
        if still:
            break
    return labels, distance


def k_means(points: Tensor, count: int) -> Tensor:
    """Labels (n,) of points (n, d): the tightest of a few runs from seeded starts."""
    generator = torch.Generator().manual_seed(0)
    best, labels = math.inf, torch.zeros(len(points), dtype=torch.long)
    for _ in range(RESTARTS):
        first = points[torch.randperm(len(points), generator=generator)[:count]]
        found, distance = lloyd(points, first, ROUNDS)
        spread = float(distance.pow(2).sum())
        if spread < best:
            best, labels = spread, found
    return torch.unique(labels, return_inverse=True)[1]
