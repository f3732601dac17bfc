"""Regions against their styles: R-FID, M-FID (paper, appendix "Region-FID", Eqs. 46-47), R-KID, cosine.

All compare, for every pair of an output and one of its regions, the output's features inside the region with
the features of the style assigned to it. M-FID and the cosine pool the style's whole map: an average over
more cells than the region's, which alone makes covariances differ by (1/|P_i| - 1/|P|) Sigma (Eq. 46). R-FID
and R-KID pool as many cells as the region has, drawn at random; they are means over such draws.

R-KID takes the kernel distance between the same two sets as R-FID. A region and its reference belong together
(the reference is of that region's style), so a pair never meets itself: this is the U-statistic over pairs of
regions, whose mean is 0 when outputs are as their styles, however often a style is used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.masks import area_resample
from ..job import InputError
from .fid import Statistics, frechet, frechet_terms
from .kid import sums_by_owner

REPEATS = 50  # Eq. 47's R
MEMORY = 1 << 28  # bytes for the references of the repeats that are drawn at once


@dataclass(frozen=True)
class RegionPair:
    """An output's embedding in one region (d,) and the weights (cells,) it was pooled with; its style, by
    whatever name its features go, and the name of the picture it lies in.
    """

    embedding: Tensor
    weights: Tensor
    style: Hashable
    picture: str


@dataclass(frozen=True)
class RegionDistances:
    """How far n regions are from their styles; *_std: the spread over the draws.

    rfid = rfid_mean_term (between the sets' means) + rfid_trace_term (between their covariances).
    region_variance: the trace of the outputs' covariance, which the latter contains.
    cosines: (n,), each region's embedding with its style's. pictures: (n,), the number of each region's.
    kernel_sums: (pictures, pictures), what each two pictures add to R-KID, over all pairs of regions.
    """

    n: int
    repeats: int
    rfid: float
    rfid_std: float
    rfid_mean_term: float
    rfid_trace_term: float
    region_variance: float
    mfid: float
    rkid: float
    rkid_std: float
    cosines: Tensor = field(compare=False)
    pictures: Tensor = field(compare=False)
    kernel_sums: Tensor = field(compare=False)


def region_weights(masks: Tensor, grid: tuple[int, int]) -> Tensor:
    """Masks (n, H, W) -> weights (n, cells): the share of each cell that the mask covers, fractions kept."""
    return area_resample(masks, grid).flatten(1)


def pool(features: Tensor, weights: Tensor) -> Tensor:
    """sum w F / sum w; features (cells, d), weights (..., cells) -> (..., d)."""
    return weights @ features / weights.sum(-1, keepdim=True)


def region_pairs(
    features: Tensor, weights: Tensor, styles: Sequence[Hashable], picture: str
) -> tuple[list[RegionPair], int]:
    """The pairs of one output, and how many of its regions have no cell.

    features: (cells, d); weights: (regions, cells); styles: each region's; picture: the output's name.
    """
    if len(weights) != len(styles):
        raise InputError(f"{len(weights)} regions but {len(styles)} styles; each region has one style")
    found = [
        RegionPair(pool(features, row), row, style, picture)
        for row, style in zip(weights, styles, strict=True)
        if float(row.sum()) > 0
    ]
    return found, len(styles) - len(found)


def support_matched(weights: Tensor, cells: int, repeats: int, rng: np.random.Generator) -> Tensor:
    """(repeats, cells): in each row the region's positive weights, on as many distinct style cells at random.

    Only the amount of evidence is matched; the region's place and shape are not imposed on the style.
    """
    support = weights[weights > 0]
    if len(support) > cells:
        raise InputError(f"a region of {len(support)} cells cannot be matched in a style of {cells} cells")
    places = torch.from_numpy(rng.random((repeats, cells)).argsort(1)[:, : len(support)].copy())
    return torch.zeros(repeats, cells).scatter_(1, places, support.float().expand(repeats, -1))


def region_distances(
    pairs: Sequence[RegionPair],
    style_map: Callable[[Any], Tensor],
    seed: int = 0,
    repeats: int = REPEATS,
    on_repeat: Callable[[int, int], None] | None = None,
) -> RegionDistances:
    """R-FID = mean over `repeats` draws of FID(outputs, references) (Eq. 47), R-KID likewise over the same
    draws; M-FID and cosines against whole styles.

    style_map gives a style's features (cells, d) by name. The draws of pair i depend on (seed, i) alone. All
    pairs form one collection; memory holds the embeddings and some of the references, never all maps.
    """
    n = len(pairs)
    if n < 2:
        raise InputError(f"R-FID and R-KID need at least 2 regions with cells; there are {n}")
    names = {name: i for i, name in enumerate(dict.fromkeys(pair.picture for pair in pairs))}
    pictures = torch.tensor([names[pair.picture] for pair in pairs])
    outputs = torch.stack([pair.embedding for pair in pairs])
    whole = torch.stack([style_map(pair.style).mean(0) for pair in pairs])
    gaussian = _gaussian(outputs)
    among_outputs = sums_by_owner(outputs, outputs, pictures, len(names))
    kernel_sums = torch.zeros_like(among_outputs)
    terms, kernels = [], []
    for references in _references(pairs, style_map, seed, repeats, outputs.shape[1]):
        terms.append(frechet_terms(*gaussian, *_gaussian(references)))
        across = sums_by_owner(outputs, references, pictures, len(names))
        drawn = among_outputs + sums_by_owner(references, references, pictures, len(names))
        drawn -= across + across.T
        kernels.append(float(drawn.sum()) / (n * (n - 1)))
        kernel_sums += drawn / repeats
        if on_repeat is not None:
            on_repeat(len(terms), repeats)
    distances = [max(mean + trace, 0.0) for mean, trace in terms]
    return RegionDistances(
        n=n,
        repeats=repeats,
        rfid=float(np.mean(distances)),
        rfid_std=_spread(distances),
        rfid_mean_term=float(np.mean([mean for mean, _ in terms])),
        rfid_trace_term=float(np.mean([trace for _, trace in terms])),
        region_variance=float(gaussian[1].square().sum()),
        mfid=frechet(*gaussian, *_gaussian(whole)),
        rkid=float(np.mean(kernels)),
        rkid_std=_spread(kernels),
        cosines=torch.cosine_similarity(outputs.double(), whole.double()).clamp(-1, 1),
        pictures=pictures,
        kernel_sums=kernel_sums,
    )


def _references(
    pairs: Sequence[RegionPair], style_map: Callable[[Any], Tensor], seed: int, repeats: int, d: int
) -> Iterator[Tensor]:
    """`repeats` draws of a reference for every pair, (n, d) each; as many at once as memory allows."""
    at_once = max(1, min(repeats, MEMORY // (4 * d * len(pairs))))
    for first in range(0, repeats, at_once):
        references = torch.empty(min(at_once, repeats - first), len(pairs), d)
        for i, pair in enumerate(pairs):
            features = style_map(pair.style)
            drawn = support_matched(pair.weights, len(features), repeats, np.random.default_rng([seed, i]))
            references[:, i] = pool(features, drawn[first : first + len(references)])
        yield from references


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _gaussian(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance factor of (n, d)."""
    statistics = Statistics(vectors.shape[1])
    statistics.add(vectors)
    return statistics.mean(), statistics.factor()
