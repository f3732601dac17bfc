"""Region-FID and masked FID (paper, appendix "Region-FID", Eqs. 46-47; READING section 5).

Both compare, for every pair of an output and one of its regions, the output's features inside the region with
the features of the style assigned to it. M-FID pools the style's whole map, an average over more cells than
the region's, which alone makes the covariances differ by (1/|P_i| - 1/|P|) Sigma (Eq. 46). R-FID pools as
many cells as the region has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.masks import area_resample
from ..job import InputError
from .fid import Statistics, frechet

REPEATS = 50  # Eq. 47's R
MEMORY = 1 << 28  # bytes for the references of the repeats that are drawn at once


@dataclass(frozen=True)
class RegionFid:
    """R-FID with the spread of its draws, M-FID, and how many (output, region) pairs they are made of."""

    rfid: float
    rfid_std: float
    mfid: float
    n: int
    repeats: int


@dataclass(frozen=True)
class RegionPair:
    """An output's embedding in one region (d,), the weights (cells,) it was pooled with, and its style's
    name.
    """

    embedding: Tensor
    weights: Tensor
    style: str


def region_weights(masks: Tensor, grid: tuple[int, int]) -> Tensor:
    """Masks (n, H, W) -> weights (n, cells): the share of each cell that the mask covers, fractions kept."""
    return area_resample(masks, grid).flatten(1)


def pool(features: Tensor, weights: Tensor) -> Tensor:
    """sum w F / sum w; features (cells, d), weights (..., cells) -> (..., d)."""
    return weights @ features / weights.sum(-1, keepdim=True)


def region_pairs(features: Tensor, weights: Tensor, styles: Sequence[str]) -> tuple[list[RegionPair], int]:
    """One output's pairs, and how many of its regions have no cell; features (cells, d), weights (regions,
    cells).
    """
    if len(weights) != len(styles):
        raise InputError(f"{len(weights)} regions but {len(styles)} styles; each region has one style")
    found = [
        RegionPair(pool(features, row), row, style)
        for row, style in zip(weights, styles, strict=True)
        if float(row.sum()) > 0
    ]
    return found, len(styles) - len(found)


def support_matched(weights: Tensor, cells: int, repeats: int, rng: np.random.Generator) -> Tensor:
    """(repeats, cells): in each row the region's positive weights on as many distinct, randomly drawn style
    cells.

    Only the amount of evidence is matched; where the region lies and what shape it has are not imposed on the
    style.
    """
    support = weights[weights > 0]
    if len(support) > cells:
        raise InputError(f"a region of {len(support)} cells cannot be matched in a style of {cells} cells")
    places = torch.from_numpy(rng.random((repeats, cells)).argsort(1)[:, : len(support)].copy())
    return torch.zeros(repeats, cells).scatter_(1, places, support.float().expand(repeats, -1))


def region_fid(
    pairs: Sequence[RegionPair],
    style_map: Callable[[str], Tensor],
    seed: int = 0,
    repeats: int = REPEATS,
    on_repeat: Callable[[int, int], None] | None = None,
) -> RegionFid:
    """R-FID = mean over `repeats` draws of FID(outputs, references) (Eq. 47), and M-FID against whole-map
    pooling.

    style_map gives a style's features (cells, d) by name. The draws of pair i depend on (seed, i) alone. All
    pairs form one collection; memory holds the embeddings and a bounded part of the references, never all
    maps.
    """
    if len(pairs) < 2:
        raise InputError(f"R-FID needs at least 2 regions with cells; there are {len(pairs)}")
    d = len(pairs[0].embedding)
    outputs = _gaussian(torch.stack([pair.embedding for pair in pairs]))
    whole = torch.stack([style_map(pair.style).mean(0) for pair in pairs])
    mfid = frechet(*outputs, *_gaussian(whole))
    at_once = max(1, min(repeats, MEMORY // (4 * d * len(pairs))))
    values: list[float] = []
    for first in range(0, repeats, at_once):
        count = min(at_once, repeats - first)
        references = torch.empty(count, len(pairs), d)
        for i, pair in enumerate(pairs):
            features = style_map(pair.style)
            drawn = support_matched(pair.weights, len(features), repeats, np.random.default_rng([seed, i]))
            references[:, i] = pool(features, drawn[first : first + count])
        for collection in references:
            values.append(frechet(*outputs, *_gaussian(collection)))
            if on_repeat is not None:
                on_repeat(len(values), repeats)
    spread = float(np.std(values, ddof=1)) if repeats > 1 else 0.0
    return RegionFid(float(np.mean(values)), spread, mfid, len(pairs), repeats)


def _gaussian(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance factor of (n, d)."""
    statistics = Statistics(vectors.shape[1])
    statistics.add(vectors)
    return statistics.mean(), statistics.factor()
