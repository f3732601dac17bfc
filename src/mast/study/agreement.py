"""Krippendorff's alpha: how far people agree beyond chance (Krippendorff 2011, "Computing Krippendorff's
Alpha-Reliability").

Written here because the package for it is under the GPL; tests hold it to the published examples.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Level = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: np.ndarray, level: Level = "ordinal") -> float | None:
    """1 is full agreement, 0 what chance gives, below 0 contradiction.

    ratings: (raters, units), NaN where a rater has not rated a unit. None where no unit has two ratings, or
    all ratings are the same and there is nothing to agree on.
    """
    seen = ~np.isnan(ratings)
    paired = ratings[:, seen.sum(0) >= 2]
    if paired.size == 0:
        return None
    values = np.unique(paired[~np.isnan(paired)])
    counts = np.stack([(paired == value).sum(0) for value in values], axis=1).astype(
        np.float64
    )  # (units, values)
    per_unit = counts.sum(1)
    pairs = counts[:, :, None] * counts[:, None, :]
    pairs[:, range(len(values)), range(len(values))] -= counts  # nobody is paired with themselves
    coincidences = (pairs / (per_unit - 1)[:, None, None]).sum(0)
    totals = coincidences.sum(1)
    distance = _distances(values, totals, level)
    expected = float(totals @ distance @ totals)
    if expected == 0:
        return None
    return 1 - (totals.sum() - 1) * float((coincidences * distance).sum()) / expected


def _distances(values: np.ndarray, totals: np.ndarray, level: Level) -> np.ndarray:
    """(values, values): the squared difference of two values, by how the scale is read."""
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    if level == "interval":
        return (values[:, None] - values[None, :]) ** 2
    # Ordinal: how many ratings lie between two values, their own counted half.
    middle = totals.cumsum() - totals / 2
    return (middle[:, None] - middle[None, :]) ** 2
