"""Why R-FID: the area bias of masked FID, and what support matching leaves of it (paper, Eqs. 46-47).

    python benchmarks/rfid_bias.py [docs/images/rfid-area-bias.png]

Outputs and styles are maps of 64 cells whose features come from one and the same distribution, so any
distance is an artefact. Regions shrink from the whole map to two cells.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

from mast.metrics import region_distances, region_pairs

CELLS, D, N, REPEATS = 64, 32, 3000, 10
SIZES = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 1280, 800, 140, 90, 60, 120
PAPER, INK, GREY = "#fbfaf7", "#2a2a2a", "#d8d5cc"
COLOURS = {"M-FID": "#e6194b", "Eq. 46": "#f0a0b4", "R-FID": "#4363d8"}


def measure(size: int, seed: int = 0) -> tuple[float, float]:
    """M-FID and R-FID of N outputs with a region of `size` cells each."""
    generator = torch.Generator().manual_seed(seed)
    styles = {f"{i}": torch.randn(CELLS, D, generator=generator) for i in range(N)}
    pairs = []
    for name in styles:
        weights = torch.zeros(1, CELLS)
        weights[0, torch.randperm(CELLS, generator=generator)[:size]] = 1
        pairs += region_pairs(torch.randn(CELLS, D, generator=generator), weights, [name], name)[0]
    found = region_distances(pairs, styles.__getitem__, repeats=REPEATS)
    return found.mfid, found.rfid


def draw(lines: dict[str, list[float]], path: Path) -> None:
    """Region size, shrinking to the right, against distance."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    pen = ImageDraw.Draw(image)
    small, large = ImageFont.load_default(24), ImageFont.load_default(32)
    top = max(max(values) for values in lines.values()) * 1.1

    def place(i: int, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * i / (len(SIZES) - 1)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    for value in range(int(top) + 1):
        pen.line([place(0, value), place(len(SIZES) - 1, value)], fill=GREY, width=1)
        pen.text((LEFT - 16, place(0, value)[1]), str(value), fill=INK, font=small, anchor="rm")
    for i, size in enumerate(SIZES):
        pen.text((place(i, 0)[0], HEIGHT - BOTTOM + 14), str(size), fill=INK, font=small, anchor="ma")
    for name, values in lines.items():
        points = [place(i, value) for i, value in enumerate(values)]
        if name == "Eq. 46":
            for (x0, y0), (x1, y1) in pairwise(points):
                for k in range(0, 10, 2):
                    a, b = k / 10, (k + 1) / 10
                    ends = [(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t) for t in (a, b)]
                    pen.line(ends, fill=COLOURS[name], width=8)
            continue
        pen.line(points, fill=COLOURS[name], width=4)
        for x, y in points:
            pen.ellipse((x - 6, y - 6, x + 6, y + 6), fill=COLOURS[name])
    title = "One distribution, shrinking regions: only the pooled area differs"
    pen.text((LEFT, 26), title, fill=INK, font=large)
    below = (
        f"cells in the region, of {CELLS} (the style is pooled over all {CELLS}, or, in R-FID, over as many)"
    )
    pen.text(((WIDTH + LEFT) / 2, HEIGHT - 30), below, fill=INK, font=small, anchor="ms")
    pen.text((30, 30), "distance", fill=INK, font=small)
    for i, name in enumerate(lines):
        pen.line([(LEFT + 40, 130 + 40 * i), (LEFT + 100, 130 + 40 * i)], fill=COLOURS[name], width=6)
        pen.text((LEFT + 115, 130 + 40 * i), name, fill=INK, font=small, anchor="lm")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, optimize=True)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/rfid-area-bias.png")
    lines: dict[str, list[float]] = {"M-FID": [], "Eq. 46": [], "R-FID": []}
    for size in SIZES:
        masked, matched = measure(size)
        expected = D * (size**-0.5 - CELLS**-0.5) ** 2
        lines["M-FID"].append(masked)
        lines["Eq. 46"].append(expected)
        lines["R-FID"].append(matched)
        print(f"{size:3d} cells  M-FID {masked:8.4f}  (Eq. 46 gives {expected:8.4f})  R-FID {matched:8.4f}")
    draw({"Eq. 46": lines["Eq. 46"], "M-FID": lines["M-FID"], "R-FID": lines["R-FID"]}, path)


if __name__ == "__main__":
    main()
