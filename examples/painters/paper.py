"""Style pictures on paper: watercolour, ink wash, brushed facets."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from painters.tools import (
    Array,
    Canvas,
    Colour,
    N,
    Rng,
    grid,
    noise,
    over,
    palette,
    ramp,
    relief,
    rgb,
    ridge,
    smooth,
    to_array,
)


def watercolour(rng: Rng) -> Array:
    """Pastel washes with wet edges: soft hills and a meadow of flowers on rough paper."""
    x, y = grid()
    paper = 251 - 15 * noise(rng, 150, 2)
    sheet = np.stack([paper, paper * 0.985, paper * 0.955], -1)
    grain, blot = noise(rng, 110, 2), noise(rng, 14, 3)

    def glaze(depth: Array, colour: Colour, strength: float, box: tuple[slice, slice]) -> None:
        """Multiply the sheet with a colour; ``depth`` is the distance from the rim, negative outside."""
        inside = smooth(depth, 0, 0.004)
        rim = np.exp(-(((depth - 0.004) / 0.004) ** 2))
        pool = 0.42 + 0.30 * grain[box] + 0.34 * blot[box]
        alpha = np.clip(strength * inside * (pool + 0.45 * rim), 0, 1)
        sheet[box] *= 1 - alpha[..., None] * (1 - np.array(colour) / 255)

    def wash(cx: float, cy: float, size: float, colour: Colour, strength: float, flat: float = 1.0) -> None:
        """One translucent blot."""
        reach = int(size * N * 1.9)
        box = tuple(slice(max(0, int(c * N) - reach), max(1, min(N, int(c * N) + reach))) for c in (cy, cx))
        dx, dy = x[box] - cx, (y[box] - cy) * flat
        turn = np.arctan2(dy, dx)
        wave = sum(rng.normal(0, 0.12 / k) * np.cos(k * turn + rng.uniform(0, 6.3)) for k in range(2, 9))
        glaze(size * (1 - wave) - np.hypot(dx, dy) + 0.7 * size * (blot[box] - 0.55), colour, strength, box)

    whole = (slice(0, N), slice(0, N))
    for colour in palette("bfa8e0 f7bcb4 98cbe8 fbd39a cdb4ea f0a6bc a6d8e2") * 6:
        wash(rng.random(), rng.uniform(-0.02, 0.42), rng.uniform(0.06, 0.17), colour, 0.62, 1.5)
    hills = [
        (0.44, "a8b4dc"),
        (0.50, "b49cd0"),
        (0.56, "84b0cc"),
        (0.62, "e8a8b0"),
        (0.68, "78b49c"),
        (0.75, "a4c878"),
    ]
    for base, code in hills:
        depth = y - ridge(rng, base, 0.10, 3, 4)[None, :]
        strength = 0.25 + 0.65 * np.exp(-np.clip(depth, 0, 1) * 9)
        glaze(depth, rgb(code), strength, whole)
    for colour in palette("6aa45a 4a8a62 a8c45a 2f6a6a 7ab08a") * 12:
        wash(rng.random(), rng.uniform(0.72, 1.0), rng.uniform(0.015, 0.05), colour, 0.66)
    stems = Canvas(sheet)
    for _ in range(90):
        px, py, lean = rng.random(), rng.uniform(0.72, 1.0), rng.normal(0, 0.03)
        along = np.linspace(0, 1, 9)
        path = np.stack([px + lean * along**2, py - rng.uniform(0.06, 0.16) * along], 1) * N
        colour = np.array(palette("2c5a4a 1f3f4a 4a7a3a")[rng.integers(3)], dtype=float)
        stems.stroke(rng, path, colour, 5, 3, 8, 0, (0.3, 0.95))
    sheet = 0.35 * sheet + 0.65 * to_array(stems.image)
    for colour in palette("e4587e f08aa8 8a4aa8 f4a83a d03a62 5a3a96 fbc84a ee7858") * 10:
        cx, cy, size = rng.random(), 0.52 + 0.46 * rng.beta(2, 1.5), rng.uniform(0.009, 0.022)
        for petal in range(5):
            turn = petal * 1.257 + rng.normal(0, 0.15)
            wash(cx + size * np.cos(turn), cy + size * np.sin(turn), size * 0.85, colour, 0.72)
        wash(cx, cy, size * 0.45, rgb("3a1f3a"), 1.0)
    for colour in palette("4a2a6a 24406a 7a2a4a f08aa8 98cbe8") * 16:
        wash(rng.random(), rng.random(), rng.uniform(0.002, 0.006), colour, 0.85)
    return sheet * (0.94 + 0.09 * noise(rng, 200, 1))[..., None]


def ink_wash(rng: Rng) -> Array:
    """Misty mountains and bamboo in grey ink on rice paper."""
    x, y = grid()
    paper = (noise(rng, 60, 3, 4.0) * 24)[..., None] + np.array([216.0, 213, 205])
    canvas = Canvas(paper, tint=0.05)
    wind = 0.35 * np.sin(x * 5 + y * 3) + 0.3 * (noise(rng, 3, 2) - 0.5)
    canvas.layer(rng, paper - 14 - 34 * noise(rng, 4, 3, 3.0)[..., None], wind, 900, 190, 26, 12, 5, 0.45)
    for level, (base, height) in enumerate([(0.40, 0.26), (0.58, 0.30), (0.76, 0.26), (0.96, 0.20)]):
        line = ridge(rng, base, height, 3 + level)[None, :]
        under = y - line
        fade = np.exp(-np.clip(under, 0, 1) / (0.10 + 0.03 * level))
        grey = 176 - 46 * level
        tone = np.array([1.0, 1.01, 1.03]) * (grey + 70 * (noise(rng, 10, 3) - 0.5) * fade)[..., None]
        washed = over(to_array(canvas.image), tone, smooth(under, -0.002, 0.006) * fade * 0.85)
        fresh = Canvas(washed, tint=0.05)
        fall = np.convolve(np.gradient(line[0]) * N, np.ones(61) / 61, mode="same")[None, :]
        slope = np.arctan2(1.0, 1.2 * np.tanh(1.5 * fall)) + 1.1 * (noise(rng, 5, 2) - 0.5)
        inside = (under > 0.004) * fade * 1.2
        fresh.layer(rng, tone * 0.74, slope, 2000, 60, 24, 9, 12, 0.45, inside)
        fresh.layer(rng, tone * 0.32, slope, 900, 34, 11, 5, 10, 0.3, inside * (noise(rng, 9, 2) > 0.6))
        canvas = fresh
    for cx in (0.07, 0.15, 0.91):
        for joint in range(7):
            top = joint / 7 + rng.uniform(-0.01, 0.01)
            path = np.stack([np.linspace(cx, cx + 0.008, 9), np.linspace(top, top + 0.135, 9)], 1) * N
            canvas.stroke(rng, path, np.array([58.0, 60, 64]), 22, 9, 22, 0.2)
        for _ in range(15):
            start = np.array([cx + rng.normal(0, 0.05), rng.uniform(-0.02, 0.8)])
            ink = np.full(3, rng.uniform(14, 90))
            for turn in 1.57 + np.linspace(-1.0, 1.0, int(rng.integers(3, 6))) + rng.normal(0, 0.15):
                reach = np.linspace(0, rng.uniform(0.06, 0.11), 9)[:, None]
                path = (start + reach * np.array([np.cos(turn), np.sin(turn)]) + 0.08 * reach**1.5) * N
                canvas.stroke(rng, path, ink, rng.uniform(15, 23), 8, 8, 0.05, (0.04, 0.99))
    return canvas.lit(0.5)


def cubist(rng: Rng) -> Array:
    """Still life broken into overlapping facets of ochre, olive and grey with brushed shading."""
    x, y = grid()
    turns = np.array([0.35, 0.95, 1.55, 2.25])
    streak = Image.fromarray((noise(rng, 60, 3, 5.0) * 255).astype(np.uint8))
    brushed = [
        to_array(streak.resize((1500, 1500)).rotate(-np.degrees(turn)).crop((238, 238, 238 + N, 238 + N)))
        / 255
        for turn in turns
    ]
    target = ramp(brushed[1], palette("6a5c42 a08a5c"))
    colours = palette("c89a4a e4cf98 6a6a3a 8c8c84 3e3e32 b06a32 d8d2c0 221e1a a4a878 746048 f2ead2 55606a")

    def facet(stencil: Image.Image, cx: float, cy: float, size: float) -> None:
        """Fill a stencil with a brushed gradient and darken its rim."""
        left, top, right, bottom = stencil.getbbox() or (0, 0, 1, 1)
        box = (slice(top, bottom), slice(left, right))
        mask = to_array(stencil)[box] / 255
        pick = int(rng.integers(4))
        shade = ((x[box] - cx) * np.cos(turns[pick]) + (y[box] - cy) * np.sin(turns[pick])) / size
        base = np.array(colours[rng.integers(len(colours))], dtype=float)
        light = 1 + 0.5 * np.clip(shade, -1, 1) + 0.5 * (brushed[pick][box] - 0.5)
        target[box] = over(target[box], base * light[..., None], mask * rng.uniform(0.8, 1.0))

    for level, (count, size) in enumerate([(70, 0.20), (110, 0.12), (110, 0.07)]):
        for _ in range(count):
            cx, cy = rng.random(2)
            corners = (
                turns[rng.integers(4)] + np.sort(rng.uniform(0, 1.0, 4)) * 0.6 + np.arange(4) * np.pi / 2
            )
            reach = size * rng.uniform(0.6, 1.2, 4)
            shape = [
                ((cx + r * np.cos(a)) * N, (cy + r * np.sin(a)) * N)
                for a, r in zip(corners, reach, strict=True)
            ]
            stencil = Image.new("L", (N, N), 0)
            pen = ImageDraw.Draw(stencil)
            if level and rng.random() < 0.16:
                pad = size * N * 0.8
                pen.pieslice(
                    (cx * N - pad, cy * N - pad, cx * N + pad, cy * N + pad),
                    *np.sort(rng.uniform(0, 400, 2)),
                    fill=255,
                )
            else:
                pen.polygon(shape, fill=255)
            facet(stencil, cx, cy, size)
            if rng.random() < 0.7:
                ends = shape[int(rng.integers(2)) :][:3]
                outline = Image.new("L", (N, N), 0)
                ImageDraw.Draw(outline).line(ends, fill=255, width=7 - 2 * level, joint="curve")
                target[to_array(outline) > 0] = rgb("1a1613")
    image = Image.fromarray(np.clip(target, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for px, py, turn in [(0.30, 0.35, 0.95), (0.62, 0.60, 0.95), (0.72, 0.20, 2.25)]:
        for string in range(6):
            shift = (string - 2.5) * 0.014
            start = np.array([px - shift * np.sin(turn), py + shift * np.cos(turn)])
            reach = 0.14 * np.array([np.cos(turn), np.sin(turn)])
            pen.line([tuple((start - reach) * N), tuple((start + reach) * N)], fill=rgb("17130f"), width=4)
    height = noise(rng, 90, 2) * 60 + brushed[0] * 60
    return relief(to_array(image), height, 1.6, 0.3)
