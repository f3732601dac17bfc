"""Style pictures of glass, stone and light: stained glass, mosaic, neon."""

from __future__ import annotations

import itertools

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

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
    relief,
    rgb,
    smooth,
    to_array,
    voronoi,
)


def stained_glass(rng: Rng) -> Array:
    """Rose window: saturated panes held by lead lines."""
    x, y = grid()
    points = [(0.5, 0.5)]
    for ring, count in enumerate([8, 16, 16, 32, 32, 48, 48], start=1):
        turns = np.arange(count) / count * 2 * np.pi + (ring % 2) * np.pi / count
        reach = 0.068 * ring
        points += [(0.5 + reach * np.cos(a), 0.5 + reach * np.sin(a)) for a in turns]
    inner = len(points)
    for px, py in rng.random((900, 2)) * 1.1 - 0.05:
        if np.hypot(px - 0.5, py - 0.5) > 0.52 and min(np.hypot(px - a, py - b) for a, b in points) > 0.045:
            points.append((px, py))
    index, border = voronoi(np.array(points))
    rings = [
        "ffd23a",
        "c4122a f2a81a",
        "1240b8 16a0c8",
        "d81a3a 7a1a9a",
        "0e8a4a f2c81a",
        "1a3ac8 c4122a",
        "6a1aa8 1a7ad8",
        "e8701a 0e7a5a",
    ]
    panes = np.zeros((len(points), 3))
    for number, (px, py) in enumerate(points):
        ring = min(7, round(np.hypot(px - 0.5, py - 0.5) / 0.068)) if number < inner else 0
        sector = int(np.floor((np.arctan2(py - 0.5, px - 0.5) / np.pi + 1) * 8 + 0.01))
        choice = palette(rings[ring]) if number < inner else palette("123a7a 0e5a6a 3a1a6a 1a6ab0 7a1230")
        pick = sector % len(choice) if number < inner else int(rng.integers(len(choice)))
        panes[number] = np.array(choice[pick]) * rng.uniform(0.65, 1.25) + 12
    streaks = noise(rng, 26, 3, 0.4) * 0.6 + noise(rng, 70, 2) * 0.4
    glow = smooth(border, 0.004, 0.030)
    light = (0.62 + 0.75 * glow + 0.7 * (streaks - 0.45)) * (1.15 - 0.35 * np.hypot(x - 0.4, y - 0.35))
    glass = panes[index] * light[..., None]
    glass += 150 * (smooth(streaks, 0.78, 1.0) * glow)[..., None]
    lead = 26 + 60 * smooth(border, 0.0012, 0.0) + 18 * noise(rng, 90, 2)
    for reach in (0.103, 0.307, 0.512):
        bar = np.abs(np.hypot(x - 0.5, y - 0.5) - reach)
        border = np.minimum(border, np.clip(bar - 0.004, 0, 1))
    return over(np.stack([lead, lead, lead * 1.06], -1), glass, smooth(border, 0.0042, 0.0064))


def gold_mosaic(rng: Rng) -> Array:
    """Byzantine gold mosaic: small stones laid in rings around a medallion."""
    image = Image.new("RGB", (N, N), rgb("2a1a10"))
    pen = ImageDraw.Draw(image)
    bump = Image.new("L", (N, N), 0)
    body = ImageDraw.Draw(bump)
    gold = palette("f8d860 e0a828 c88818 fff0a8 a86c14 f0c040")
    pitch = 21.0

    def colours_at(reach: float, turn: float) -> list[Colour]:
        """The pattern of the mosaic in polar coordinates (pixels, radians)."""
        petal = np.cos(turn * 8)
        if reach < 60:
            return palette("fff4c8 f8e08a ffffff")
        if reach < 84 or 250 < reach < 276 or 400 < reach < 424:
            return palette("7a0c1c a81828 5a0814")
        if reach < 250:
            if petal > 0.25 + (reach - 84) / 260:
                return palette("10307a 1a4ab0 0c1f58")
            return gold if petal > -0.55 else palette("0e5a48 1c8a6a 0a3a34")
        if reach < 400:
            wave = np.cos(turn * 12 + (reach - 276) / 20)
            return palette("1a4ab0 10307a 3a7ad0 0c1f58") if wave > 0.45 else gold
        return gold if np.cos(turn * 16) * np.cos(reach / 33) < 0.45 else palette("8a1424 c03030 f4e8d0")

    for ring in range(1, 38):
        reach = ring * pitch
        count = max(6, round(2 * np.pi * reach / pitch))
        start = rng.random()
        for tile in range(count):
            turn = (tile + start) / count * 2 * np.pi
            px = N / 2 + reach * np.cos(turn) + rng.normal(0, 0.8)
            py = N / 2 + reach * np.sin(turn) + rng.normal(0, 0.8)
            if not (-20 < px < N + 20 and -20 < py < N + 20):
                continue
            choice = colours_at(reach, turn)
            shade = np.array(choice[int(rng.integers(len(choice)))]) * rng.uniform(0.68, 1.12)
            half = pitch * rng.uniform(0.39, 0.46)
            corners = turn + rng.normal(0, 0.06) + np.pi / 4 + np.arange(4) * np.pi / 2
            wide = half * 1.414 * rng.uniform(0.90, 1.06, 4)
            shape = [(px + w * np.cos(c), py + w * np.sin(c)) for c, w in zip(corners, wide, strict=True)]
            pen.polygon(shape, fill=tuple(int(v) for v in np.clip(shade, 0, 255)))
            body.polygon(shape, fill=int(rng.integers(150, 255)))
    height = to_array(bump.filter(ImageFilter.GaussianBlur(2.6)))
    tilt = noise(rng, 60, 2) * 40
    stone = relief(to_array(image), height + tilt, 3.4, 0.9)
    return stone * (0.80 + 0.32 * noise(rng, 5, 3))[..., None]


def neon_grid(rng: Rng) -> Array:
    """Glowing lines on black: sun, peaks and a perspective grid."""
    x, y = grid()
    horizon = 0.60
    night = ramp(y + 0.25 * (noise(rng, 4, 3) - 0.5), palette("05030f 120630 2a0a4c 140424 08020f"))
    glow = Image.new("RGB", (N, N), 0)
    pen = ImageDraw.Draw(glow)
    cols, rows = 15, 9
    mesh = np.stack(np.meshgrid(np.linspace(-0.05, 1.05, cols), np.linspace(-0.04, horizon, rows)), -1)
    mesh[:-1] += rng.normal(0, 0.018, mesh[:-1].shape)
    lines = palette("1a5ae8 7a1ae8 12b8e8 3a1ac8 e81ab8")
    for row in range(rows - 1):
        for col in range(cols - 1):
            a, b, c, d = (tuple(mesh[row + i, col + j] * N) for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)))
            if rng.random() < 0.40:
                fill = np.array(lines[int(rng.integers(5))]) * rng.uniform(0.12, 0.42)
                pen.polygon([a, b, d] if rng.random() < 0.5 else [a, c, d], fill=tuple(int(v) for v in fill))
            line = lines[int(rng.integers(5))]
            for start, end in ((a, b), (a, c), (a, d)):
                pen.line([start, end], fill=line, width=int(rng.choice([2, 4, 5])))
    sun = np.hypot(x - 0.5, y - 0.40)
    disc = smooth(0.205 - sun, 0, 0.004)
    slots = smooth(np.sin((y - 0.40) * 150), -0.25 + 2.4 * (0.50 - y), 0.15 + 2.4 * (0.50 - y))
    face = ramp((y - 0.2) / 0.4, palette("fff27a ffb03a ff4a7a e81ab8")) * (0.12 + 0.88 * slots)[..., None]
    scene = over(np.maximum(night, to_array(glow)), face, disc)
    image = Image.fromarray(np.clip(scene, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for base, colour, dark in ((0.0, "12e8f2", "0a1a3a"), (0.04, "ff3ad0", "1c062c")):
        knots = np.linspace(-0.05, 1.05, 14)
        tops = horizon - 0.03 - (0.20 - base * 2.5) * np.abs(knots - 0.5) * rng.uniform(0.5, 1.5, 14)
        shape = [(px * N, py * N) for px, py in zip(knots, tops, strict=True)]
        pen.polygon([(-60, horizon * N), *shape, (N + 60, horizon * N)], fill=rgb(dark))
        pen.line(shape, fill=rgb(colour), width=6)
        for (px, py), (qx, _) in itertools.pairwise(shape):
            for part in (0.2, 0.5, 0.8, 1.1):
                pen.line(
                    [(px, py), (px + (qx - px) * (part - 0.5) * 2, horizon * N)], fill=rgb(colour), width=2
                )
    pen.rectangle((0, horizon * N, N, N), fill=rgb("0c0420"))
    for step in range(17):
        depth = horizon + (1 - horizon) * (step / 16) ** 1.7
        pen.line(
            [(0, depth * N), (N, depth * N)],
            fill=rgb("ff2ad8" if step % 2 else "b01af2"),
            width=3 + step // 5,
        )
    for spoke in range(-34, 35):
        pen.line(
            [(N / 2 + spoke * 30, horizon * N), (N / 2 + spoke * 118, N)],
            fill=rgb("2ae8ff" if spoke % 3 == 0 else "ff2ad8"),
            width=4,
        )
    sharp = to_array(image)
    bloom = sum(
        to_array(image.filter(ImageFilter.GaussianBlur(r))) * w for r, w in ((5, 0.55), (16, 0.5), (44, 0.4))
    )
    scan = 0.90 + 0.10 * np.sin(y * N / 12 * 2 * np.pi)
    return (sharp * 0.9 + bloom * 0.75) * scan[..., None]
