"""T(r), how much of the detail DDI's filter lets through, relative to r = 0.1 (App. A.6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.ddi import transmission
from ..job import InputError
from .report import TextRow

SCALES = (0.1, 0.3, 0.5, 0.7, 0.9)
GRIDS = (32, 64)  # of the paper's controlled layers at 512 px
PAPER = {0.1: 1.0, 0.3: 0.38, 0.9: 0.014}


def parse_scales(text: str) -> list[float]:
    """ "0.1,0.3" as numbers."""
    try:
        scales = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--r {text}: give numbers with commas between them, as in 0.1,0.3,0.9") from error
    if not all(math.isfinite(r) and r > 0 for r in scales):
        raise InputError(f"--r {text}: each must be above 0 (the paper uses 0.3)")
    return scales


def header(grids: Sequence[int] = GRIDS) -> tuple[str, ...]:
    return ("r", *[f"T(r), {size}x{size}" for size in grids], "differs by", "paper")


def table(scales: Sequence[float], grids: Sequence[int] = GRIDS) -> list[TextRow]:
    rows = []
    for r in scales:
        values = [transmission(r, size) for size in grids]
        paper = next((f"{value:.1%}" for known, value in PAPER.items() if math.isclose(known, r)), "-")
        spread = f"{100 * (max(values) - min(values)):.3f} points"
        rows.append((f"{r:g}", *[f"{value:.2%}" for value in values], spread, paper))
    return rows


def data(scales: Sequence[float], grids: Sequence[int] = GRIDS) -> dict[str, Any]:
    return {
        "relative_to_r": 0.1,
        "transmission": [
            {"r": r, **{f"{size}x{size}": transmission(r, size) for size in grids}} for r in scales
        ],
        "paper": {f"{r:g}": value for r, value in PAPER.items()},
    }
