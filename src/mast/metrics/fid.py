"""Frechet distance of two sets of features (https://arxiv.org/abs/1706.08500), from streamed statistics; and
ArtFID (https://arxiv.org/abs/2207.12280), which joins it with LPIPS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from ..job import InputError


class Statistics:
    """Mean and unbiased covariance of vectors that arrive in batches.

    While there are fewer vectors than dimensions the vectors themselves are the smaller and more exact thing
    to keep; beyond that their sums are, and memory stays at dimension^2 however many pictures come.
    """

    def __init__(self, dimensions: int):
        self.dimensions, self.n = dimensions, 0
        self.kept: list[Tensor] = []
        self.origin = torch.zeros(dimensions, dtype=torch.float64)
        self.total: Tensor | None = None
        self.outer: Tensor | None = None

    def add(self, vectors: Tensor, times: int = 1) -> None:
        """(n, dimensions), each counted `times` times."""
        vectors = vectors.detach().cpu().double().reshape(-1, self.dimensions)
        vectors = vectors.repeat_interleave(times, 0) if times > 1 else vectors
        self.n += len(vectors)
        if self.total is None and self.n < self.dimensions:
            self.kept.append(vectors)
            return
        if self.total is None:
            vectors = torch.cat([*self.kept, vectors])
            # Sums are taken around a typical vector: squares of large means would swallow small variances.
            self.origin = vectors.mean(0)
            self.total = torch.zeros(self.dimensions, dtype=torch.float64)
            self.outer = torch.zeros(self.dimensions, self.dimensions, dtype=torch.float64)
            self.kept = []
        assert self.outer is not None
        centred = vectors - self.origin
        self.total += centred.sum(0)
        self.outer += centred.T @ centred

    def mean(self) -> Tensor:
        """(dimensions,) float64."""
        if self.total is None:
            return torch.cat(self.kept).mean(0)
        return self.origin + self.total / self.n

    def covariance(self) -> Tensor:
        """(dimensions, dimensions) float64, divided by n - 1."""
        if self.total is None:
            rows = self.factor()
            return rows.T @ rows
        assert self.outer is not None
        return (self.outer - torch.outer(self.total, self.total) / self.n) / (self.n - 1)

    def factor(self) -> Tensor:
        """A (k, dimensions), A^T A = covariance: the centred vectors while they are few, else its root."""
        if self.n < 2:
            raise InputError(f"a covariance needs at least 2 pictures; there are {self.n}")
        if self.total is None:
            vectors = torch.cat(self.kept)
            return (vectors - vectors.mean(0)) / math.sqrt(self.n - 1)
        return symmetric_root(self.covariance())


def symmetric_root(matrix: Tensor) -> Tensor:
    """The root of a symmetric, positive semi-definite matrix; eigenvalues rounded below zero count as 0."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.T


def frechet_terms(mean_a: Tensor, factor_a: Tensor, mean_b: Tensor, factor_b: Tensor) -> tuple[float, float]:
    """|m_a - m_b|^2, and tr(S_a + S_b - 2 (S_a S_b)^(1/2)) with S = A^T A given by factors A (k, d).

    tr (S_a S_b)^(1/2) is the sum of the singular values of A_a A_b^T: no root of a product that is not
    symmetric, no imaginary parts, no offset on the diagonal, and a small matrix (n x n) while n < d.
    """
    trace = factor_a.square().sum() + factor_b.square().sum()
    cross = torch.linalg.svdvals(factor_a @ factor_b.T).sum()
    return float((mean_a - mean_b).square().sum()), float(trace - 2 * cross)


def frechet(mean_a: Tensor, factor_a: Tensor, mean_b: Tensor, factor_b: Tensor) -> float:
    """The Frechet distance: the sum of its two terms, rounding below zero cut off."""
    return max(sum(frechet_terms(mean_a, factor_a, mean_b, factor_b)), 0.0)


def frechet_from_moments(mean_a: Tensor, covariance_a: Tensor, mean_b: Tensor, covariance_b: Tensor) -> float:
    """The distance of two Gaussians given by mean (d,) and covariance (d, d)."""
    roots = symmetric_root(covariance_a.double()), symmetric_root(covariance_b.double())
    return frechet(mean_a.double(), roots[0], mean_b.double(), roots[1])


def fid(a: Statistics, b: Statistics) -> float:
    """FID of two sets. With fewer pictures than dimensions it is biased upward: print n beside it."""
    return frechet(a.mean(), a.factor(), b.mean(), b.factor())


def statistics(batches: Iterable[Tensor]) -> Statistics:
    """The statistics of batches (n, d) of pooled features."""
    result: Statistics | None = None
    for batch in batches:
        result = result or Statistics(batch.shape[-1])
        result.add(batch)
    if result is None:
        raise InputError("there are no pictures to take statistics of")
    return result


def artfid(fid: float, lpips: float) -> float:
    """(1 + LPIPS)(1 + FID), Sec. 4.1: LPIPS to the photos, FID to the styles.

    With ArtFID's Inception this is the paper's number (1.531 x 9.656 = 14.78); with FID's own it is on
    another scale.
    """
    return (1 + lpips) * (1 + fid)
