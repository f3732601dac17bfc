"""What the two attention networks, AdaAttN and StyleMixer, have in common: cells chosen by masks, channels
normalised over chosen cells, and attention whose map is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ...core.masks import area_resample
from ...job import InputError

EPSILON = 1e-5  # added to a variance
KEY_THRESHOLD = 0.5  # a cell of the style counts when its mask covers this share of it, as in mast.prepare
CHUNK_BYTES = 32 << 20  # logits held at a time
SMALLEST = 17  # px; below it relu5_1 is a single cell, whose border cannot be reflected


def touched(mask: Tensor, feature: Tensor) -> Tensor | None:
    """The cells of a feature (1, c, h, w) that a mask (H, W) of its picture touches at all: (n,), or None if
    that is all of them.
    """
    return _indices(_on_grid(mask, feature) > 0)


def covered(mask: Tensor, feature: Tensor) -> Tensor | None:
    """The cells of a style's feature (1, c, h, w) that lie inside its mask (H, W): (n,), or None for all."""
    cells = _on_grid(mask, feature) >= KEY_THRESHOLD
    if not cells.any():
        raise InputError(
            f"the style mask covers no whole cell of the {feature.shape[2]}x{feature.shape[3]} grid; enlarge "
            "it or raise --size"
        )
    return _indices(cells)


def _indices(cells: Tensor) -> Tensor | None:
    # None, so that a full mask takes the very same way as none, down to the last bit.
    return None if cells.all() else cells.nonzero().squeeze(1)


def _on_grid(mask: Tensor, feature: Tensor) -> Tensor:
    return area_resample(mask.unsqueeze(0), (feature.shape[2], feature.shape[3])).flatten()


def tokens(feature: Tensor) -> Tensor:
    """(1, c, h, w) -> (h w, c)."""
    return feature[0].flatten(1).T


def normalise(feature: Tensor, cells: Tensor | None = None) -> Tensor:
    """(1, c, h, w) with zero mean and unit (unbiased) variance per channel over all cells, or over these."""
    seen = feature.flatten(2) if cells is None else feature.flatten(2)[..., cells]
    variance, mean = torch.var_mean(seen, dim=2, correction=min(1, seen.shape[2] - 1), keepdim=True)
    return (feature - mean.unsqueeze(3)) / (variance.unsqueeze(3) + EPSILON).sqrt()


def logit_chunks(query: Tensor, key: Tensor, limit: int = CHUNK_BYTES) -> Iterator[tuple[slice, Tensor]]:
    """Q K^T, unscaled as in both networks, some queries at a time; (q, d), (k, d) -> (slice, (rows, k))."""
    rows = max(1, limit // (4 * len(key)))
    for start in range(0, len(query), rows):
        chunk = slice(start, min(start + rows, len(query)))
        yield chunk, query[chunk] @ key.T


def attended_statistics(
    query: Tensor, key: Tensor, value: Tensor, limit: int = CHUNK_BYTES
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the values under each query's attention, each (q, c).

    query (q, d), key (k, d), value (k, c); limit: bytes of logits at a time.
    """
    channels = value.shape[1]
    both = torch.cat([value, value.square()], 1)
    moments = value.new_empty(len(query), 2 * channels)
    for chunk, logits in logit_chunks(query, key, limit):
        moments[chunk] = logits.softmax(-1) @ both
    mean, square = moments.split(channels, 1)
    return mean, (square - mean.square()).relu().sqrt()


def attended_mean(
    query: Tensor, key: Tensor, value: Tensor, limit: int = CHUNK_BYTES
) -> tuple[Tensor, Tensor]:
    """Mean of the values (q, c), and of the logits themselves (q,), under each query's attention: what is
    found, and how well it fits.
    """
    mean = value.new_empty(len(query), value.shape[1])
    fit = value.new_empty(len(query))
    for chunk, logits in logit_chunks(query, key, limit):
        attention = logits.softmax(-1)
        mean[chunk] = attention @ value
        fit[chunk] = (attention * logits).sum(-1)
    return mean, fit


def large_enough(content: Tensor, styles: Sequence[Tensor]) -> None:
    """Refuses pictures (1, 3, h, w) too small for relu5_1."""
    for name, picture in (("the photo", content), *(("a style picture", style) for style in styles)):
        if min(picture.shape[2:]) < SMALLEST:
            raise InputError(
                f"{name} is {picture.shape[3]}x{picture.shape[2]} px; each side needs {SMALLEST} px or more"
            )
