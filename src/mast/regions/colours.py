"""Colour-coded maps: which colours a map holds, and how much of it each covers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..images import COLOUR_TOLERANCE, read_rgb

SMALLEST_SHARE = 0.001  # colours that cover less are edges between others


def colour_shares(
    path: Path, wanted: Sequence[tuple[int, int, int]]
) -> tuple[list[float], list[tuple[str, float]]]:
    """The share of the map each wanted colour covers, and the other colours ("#rrggbb", share), largest
    first.
    """
    pixels = np.asarray(read_rgb(path, "map")).reshape(-1, 3)
    free = np.ones(len(pixels), bool)
    shares = []
    for rgb in wanted:
        near = np.abs(pixels.astype(np.int16) - np.array(rgb, np.int16)).max(1) <= COLOUR_TOLERANCE
        shares.append(float(near.mean()))
        free &= ~near
    colours, counts = np.unique(pixels[free], axis=0, return_counts=True)
    order = np.argsort(-counts)
    others = [("#{:02x}{:02x}{:02x}".format(*colours[i]), float(counts[i] / len(pixels))) for i in order]
    return shares, [(name, share) for name, share in others if share >= SMALLEST_SHARE]
