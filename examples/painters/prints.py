"""Printed and dyed style pictures: woodcut, colour print, batik, marbled paper."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from painters.tools import (
    Array,
    Colour,
    N,
    Rng,
    grid,
    noise,
    over,
    palette,
    ramp,
    rgb,
    ridge,
    smooth,
    to_array,
    voronoi,
)


def woodcut(rng: Rng) -> Array:
    """Mountains, sun rays and a lake cut as black and cream hatching."""
    x, y = grid()
    wobble = 0.9 * (noise(rng, 10, 3) - 0.5)
    turn = np.arctan2(y - 0.30, x - 0.68)
    sun = np.hypot(x - 0.68, y - 0.30)
    lines = turn / (2 * np.pi) * 110 + 0.5 * wobble
    tone = 0.80 - 0.62 * smooth(sun, 0.1, 0.75) + 0.25 * (noise(rng, 4, 3, 2.5) - 0.5)
    tone = np.where(sun < 0.12, 1.0, np.where(sun < 0.135, 0.0, tone))
    for base, height, pitch, tilt in [(0.60, 0.26, 62, 0.9), (0.68, 0.34, 54, -0.8), (0.72, 0.14, 60, 0.5)]:
        skyline = ridge(rng, base, height, 4)[None, :]
        under = y - skyline
        slope = np.gradient(skyline[0])[None, :] * N
        lit = smooth(-slope + 1.6 * (noise(rng, 9, 3) - 0.5), -0.9, 0.9)
        hatch = (x * np.sin(tilt) + y * np.cos(tilt)) * pitch + wobble * 1.6
        inside = under > 0
        lines = np.where(inside, hatch, lines)
        tone = np.where(inside, np.where(under < 0.006, 0.0, 0.08 + 0.75 * lit), tone)
    lake = y > 0.74
    ripple = (y + 0.012 * np.sin(x * 26 + 8 * y) + 0.010 * (noise(rng, 6, 3, 3.0) - 0.5)) * 72
    glint = np.exp(-(((x - 0.68) / 0.13) ** 2))
    lines = np.where(lake, ripple, lines)
    tone = np.where(lake, 0.22 + 0.6 * glint + 0.35 * (noise(rng, 7, 3, 4.0) - 0.5), tone)
    bank = ridge(rng, 0.96, 0.08, 5)[None, :] - 0.13 * np.exp(-(((x - 0.1) / 0.2) ** 2))
    reeds = x * 60 + 2.2 * np.sin(y * 9) + wobble * 2
    lines = np.where(y > bank, reeds, lines)
    tone = np.where(y > bank, 0.38 + 0.5 * (noise(rng, 12, 2) - 0.5), tone)
    for cx, top, wide in [(0.10, 0.16, 0.075), (0.24, 0.42, 0.055), (0.02, 0.40, 0.06)]:
        tier = ((y - top) * 13) % 1
        half = wide * (y - top) / (0.9 - top) * (0.45 + 0.75 * tier) + 0.006
        tree = (np.abs(x - cx) < half) & (y > top) & (y < 0.90)
        lines = np.where(tree, (np.abs(x - cx) * 0.9 + y) * 78, lines)
        tone = np.where(tree, 0.10 + 0.38 * smooth(x - cx, -0.01, 0.06), tone)
    edge = np.abs(lines % 1 - 0.5) * 2
    cut = smooth(edge - (1 - np.clip(tone, 0, 1)) + 0.12 * (noise(rng, 120, 2) - 0.5), -0.10, 0.10)
    ink = ramp(noise(rng, 60, 2, 5.0), palette("120e0c 2a221c"))
    paper = ramp(noise(rng, 30, 3, 6.0), palette("d8c49a efe0bc f6ecd0"))
    return over(ink, paper, cut)


def ukiyo_waves(rng: Rng) -> Array:
    """Rolling indigo waves with foam, printed flat with fine contour lines."""
    x, y = grid()
    sky = ramp(y * 1.5 + 0.10 * (noise(rng, 4, 3, 4.0) - 0.5), palette("3a5a86 b8b89a e8d6a8 f2e4c4 ead2a0"))
    band = smooth(
        np.sin((y * 26 + 0.7 * np.sin(x * 6 + y * 9)) * 2 * np.pi + 3 * noise(rng, 3, 2, 3.0)), 0.55, 0.75
    )
    picture = over(sky, ramp(y, palette("f6ecd4 b8946a a0643c")), band * 0.75)
    peak = np.abs(x - 0.70) * 0.9 + 0.24 + 0.012 * np.sin(x * 60)
    mountain = smooth(y - peak, 0, 0.004)
    snow = smooth(0.34 + 0.035 * np.abs(np.sin(x * 42)) - y, 0, 0.006)
    picture = over(picture, ramp((y - peak) * 3, palette("24406a 5a7c94 a8b8a8")), mountain)
    picture = over(picture, np.zeros_like(picture) + rgb("f8f2e0"), mountain * snow)
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    blues = ["8fb4b8 5a8ca4 2c5c86", "6a9cae 34688e 1c3f70", "5a8cae 24507e 142c5a", "4a7ca6 1c4070 0e2048"]
    axis = np.arange(N) / N
    for row in range(8):
        base = 0.47 + 0.080 * row
        swing = 0.040 + 0.012 * row
        pitch = 4.4 - 0.36 * row
        phase = rng.uniform(0, 1)
        saw = (axis * pitch + phase) % 1
        crest = base + swing * (0.9 - 2.6 * saw**1.6 * (1 - smooth(saw, 0.80, 1.0)))
        crest += 0.003 * np.sin(axis * 60 + row)
        under = y - crest[None, :]
        colours = palette(blues[row % 4])
        stripe = ((under + 0.016 * np.sin(x * 13 + row)) * (30 - row)) % 1
        body = ramp(np.floor(stripe * 3) / 2 * 0.85 + 0.15 * noise(rng, 30, 2, 5.0), colours)
        body = over(body, np.zeros_like(body) + rgb("e4ead8"), smooth(np.abs(stripe - 0.5), 0.44, 0.48) * 0.8)
        body = over(body, np.zeros_like(body) + rgb("0c1a3a"), smooth(-under, -0.004, -0.003))
        layer = Image.fromarray(np.clip(body, 0, 255).astype(np.uint8))
        image.paste(layer, mask=Image.fromarray((smooth(under, 0, 0.002) * 255).astype(np.uint8)))
        pen = ImageDraw.Draw(image)
        foam = [(a, crest[a]) for a in range(0, N, 7) if 0.52 < saw[a] < 0.95]
        for reach, colour in ((1.28, rgb("1a2f5c")), (1.0, rgb("f8f3e2"))):
            local = np.random.default_rng(row)
            for a, top in foam:
                size = local.uniform(5, 13) * (0.7 + 0.09 * row)
                px, py = (
                    a + local.normal(0, 5),
                    top * N + local.normal(2, 7) + (0.8 * size if local.random() < 0.3 else 0),
                )
                pad = size * reach
                pen.ellipse((px - pad, py - pad, px + pad, py + pad), fill=colour)
        for a, top in foam[::2]:
            px, py, size = a + rng.normal(0, 16), top * N - rng.uniform(10, 60), rng.uniform(2, 5)
            pen.ellipse((px - size, py - size, px + size, py + size), fill=rgb("f8f3e2"))
    printed = to_array(image)
    fibre = noise(rng, 26, 4, 9.0)
    return printed * (0.90 + 0.14 * fibre)[..., None]


def batik(rng: Rng) -> Array:
    """Wax-resist cloth with rosettes, leaves and dots in red, teal and cream."""
    ground, red, teal, cream, dark, ochre = palette("7c1420 b8242c 127a7c f4e4c0 2a0c10 e0a030")
    image = Image.new("RGB", (N, N), ground)
    pen = ImageDraw.Draw(image)

    def dot(px: float, py: float, size: float, colour: Colour) -> None:
        """A round spot."""
        pen.ellipse((px - size, py - size, px + size, py + size), fill=colour)

    def leaf(
        px: float, py: float, turn: float, length: float, width: float, fill: Colour, rim: Colour
    ) -> None:
        """A pointed leaf with a rim and a midrib."""
        for grow, colour in ((5.0, rim), (0.0, fill)):
            along = np.linspace(0, 1, 17)
            side = np.sin(along * np.pi) ** 0.8 * (width / 2 + grow)
            reach = along * (length + 2 * grow) - grow
            edge = [(r, s) for r, s in zip(reach, side, strict=True)]
            edge += [(r, -s) for r, s in reversed(edge)]
            pen.polygon(
                [
                    (px + r * np.cos(turn) - s * np.sin(turn), py + r * np.sin(turn) + s * np.cos(turn))
                    for r, s in edge
                ],
                fill=colour,
            )
        for part in (0.3, 0.5, 0.7):
            dot(px + part * length * np.cos(turn), py + part * length * np.sin(turn), width / 10 + 1, rim)

    for px, py in np.stack(np.meshgrid(np.arange(12, N, 29), np.arange(12, N, 29)), -1).reshape(-1, 2):
        dot(px + rng.normal(0, 3), py + rng.normal(0, 3), 7.5, red)
        dot(px + rng.normal(0, 3), py + rng.normal(0, 3), 3.6, cream)
    pitch = 256
    for row in range(-1, 6):
        for col in range(-1, 6):
            px, py = col * pitch + (row % 2) * pitch / 2, row * pitch * 0.86 + 40
            for side in range(6):
                turn = side * np.pi / 3 + np.pi / 6
                for bend in (-0.42, 0.42):
                    leaf(px + 92 * np.cos(turn), py + 92 * np.sin(turn), turn + bend, 72, 30, teal, dark)
            dot(px, py, 104, dark)
            dot(px, py, 97, cream if (row + col) % 2 else ochre)
            for petal in range(12):
                turn = petal * np.pi / 6
                leaf(
                    px + 34 * np.cos(turn),
                    py + 34 * np.sin(turn),
                    turn,
                    60,
                    25,
                    red if petal % 2 else teal,
                    dark,
                )
            dot(px, py, 42, dark)
            dot(px, py, 36, teal if (row + col) % 2 else red)
            for bead in range(8):
                dot(px + 25 * np.cos(bead * np.pi / 4), py + 25 * np.sin(bead * np.pi / 4), 6.5, cream)
            dot(px, py, 12, ochre)
    shift = (np.stack([noise(rng, 24, 2), noise(rng, 24, 2)], -1) - 0.5) * 12
    rows, cols = np.mgrid[0:N, 0:N]
    cloth = to_array(image)[
        np.clip(rows + shift[..., 0], 0, N - 1).astype(int),
        np.clip(cols + shift[..., 1], 0, N - 1).astype(int),
    ]
    _, border = voronoi(rng.random((170, 2)))
    crack = smooth(border + 0.004 * (noise(rng, 40, 3) - 0.5), 0.0022, 0.0004) * smooth(
        noise(rng, 5, 2), 0.25, 0.6
    )
    cloth = over(cloth, np.zeros_like(cloth) + dark, crack * 0.75)
    weave = 0.93 + 0.05 * np.sin(rows * 1.05) * np.sin(cols * 1.05)
    dye = 0.84 + 0.42 * noise(rng, 6, 5)
    return cloth * (weave * dye)[..., None]


def marbled(rng: Rng) -> Array:
    """Combed marbled paper in turquoise, coral, cream and black."""
    x, y = grid()
    u = x + 0.05 * np.sin(y * 9 + 2) + 0.10 * (noise(rng, 3, 2) - 0.5)
    v = y + 0.04 * np.sin(x * 7) + 0.08 * (noise(rng, 3, 2) - 0.5)
    for cx, cy, size, turn in [
        (0.27, 0.30, 0.16, 4.2),
        (0.74, 0.24, 0.13, -4.6),
        (0.60, 0.72, 0.18, 4.0),
        (0.14, 0.80, 0.13, -4.2),
    ]:
        dx, dy = u - cx, v - cy
        spin = turn * np.exp(-(dx**2 + dy**2) / (2 * (size * 0.55) ** 2))
        u, v = cx + dx * np.cos(spin) - dy * np.sin(spin), cy + dx * np.sin(spin) + dy * np.cos(spin)
    comb = np.abs(((u * 15) % 1) - 0.5) * 2
    field = (v + 0.065 * comb**1.5) * 34 + 1.6 * (noise(rng, 8, 4) - 0.5)
    level = np.floor(field).astype(int)
    colours = np.array(
        palette("0f8f96 f6ead0 f2604a 101820 4ac8c0 f6ead0 b82a3a 0c5a6a f8b48a 101820 e8f0e0 17a8a0")
    )
    order = rng.integers(0, len(colours), 400)
    order = np.where(order == np.roll(order, 1), (order + 1) % len(colours), order)
    paint = colours[order[level % 400]]
    part = field - level
    paint = paint * (0.86 + 0.24 * part)[..., None]
    vein = smooth(np.abs(part - 0.5), 0.40, 0.48)
    paint = over(paint, np.zeros_like(paint) + rgb("142028"), vein * 0.55)
    image = Image.fromarray(np.clip(paint, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for px, py, size in zip(rng.random(90) * N, rng.random(90) * N, rng.uniform(6, 16, 90), strict=True):
        for pad, code in ((size * 1.25, "101820"), (size, "f8efd8")):
            pen.ellipse((px - pad, py - pad, px + pad, py + pad), fill=rgb(code))
    paint = to_array(image)
    return paint * (0.93 + 0.10 * noise(rng, 90, 2))[..., None]
