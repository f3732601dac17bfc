"""Style pictures laid on thickly: oil, palette knife, dots of colour, wax crayon."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from painters.tools import (
    Array,
    Canvas,
    N,
    Rng,
    blurred,
    grid,
    noise,
    over,
    palette,
    ramp,
    rgb,
    ridge,
    smooth,
    to_array,
)


def starry_oil(rng: Rng) -> Array:
    """Night sky of swirling oil strokes in blue and yellow above dark hills."""
    x, y = grid()
    sky = noise(rng, 4, 4, 2.0)
    flow_x, flow_y = np.ones_like(x), 0.5 * np.sin(x * 7 + 1) + 0.7 * (noise(rng, 3, 2) - 0.5)
    swirls = [(0.40, 0.33, 0.15, 1), (0.66, 0.44, 0.10, -1), (0.10, 0.10, 0.08, 1), (0.93, 0.40, 0.08, 1)]
    for cx, cy, size, turn in swirls:
        dx, dy = x - cx, y - cy
        weight = np.exp(-(dx**2 + dy**2) / (2 * size**2)) * 9 * turn
        flow_x, flow_y = flow_x - weight * dy / size, flow_y + weight * dx / size
        sky += (
            0.28
            * np.cos(np.hypot(dx, dy) / size * 9 - np.arctan2(dy, dx) * turn)
            * np.exp(-(dx**2 + dy**2) / (2 * size**2))
        )
    target = ramp(sky * 0.8 + 0.25 * y, palette("0a1440 14307a 1f4fa3 3f7cc0 86b4d6 d7e4cf"))
    stars = [(0.85, 0.14, 0.085)] + [
        (px, py, size)
        for px, py, size in zip(
            [0.08, 0.24, 0.33, 0.55, 0.66, 0.18, 0.79, 0.52, 0.95],
            [0.30, 0.09, 0.54, 0.12, 0.25, 0.47, 0.55, 0.60, 0.62],
            rng.uniform(0.022, 0.045, 9),
            strict=True,
        )
    ]
    for cx, cy, size in stars:
        dx, dy = x - cx, y - cy
        reach = np.hypot(dx, dy) / size
        rings = ramp(np.clip(reach / 2.6, 0, 1), palette("fff7c8 fbd743 f2a91d e8d277 7fae9d 2f62a8"))
        target = over(target, rings, smooth(-reach, -2.6, -1.5))
        pull = np.exp(-((reach / 1.9) ** 2)) * 14
        flow_x, flow_y = flow_x - pull * dy / size, flow_y + pull * dx / size
    angle = np.arctan2(flow_y, flow_x)
    for base, height, colours in [
        (0.80, 0.16, "0d2148 1d4a74 3f7d86 0a1a3a"),
        (0.96, 0.16, "08142c 1b4a3c 3d7240 0a1f26"),
    ]:
        line = ridge(rng, base, height, 3, 3)[None, :]
        below = smooth(y - line, 0, 0.004)
        target = over(target, ramp((noise(rng, 6) + (y - line) * 3) % 1, palette(colours)), below)
        slope = np.arctan(np.gradient(line[0]) * N)[None, :] * np.ones_like(x)
        angle = np.where(below > 0.5, slope + 0.5 * np.sin((y - line) * 40), angle)
    tree = np.abs(x - 0.13 - 0.02 * np.sin(y * 20)) - 0.10 * smooth(y, 0.36, 1.0)
    tree_mask = smooth(-tree, 0, 0.008) * (y > 0.36)
    target = over(target, ramp(noise(rng, 14, 3), palette("050c16 0d2a22 2a4a24 5a5a1e")), tree_mask)
    angle = np.where(tree_mask > 0.5, -np.pi / 2 + 0.5 * np.sin(y * 30 + x * 60), angle)
    canvas = Canvas(blurred(target, 12))
    canvas.layer(rng, target, angle, 2600, 120, 26, 9, 11)
    canvas.layer(rng, target, angle, 5200, 84, 15, 6, 14)
    return canvas.lit(2.2, 0.5)


def impasto_autumn(rng: Rng) -> Array:
    """Autumn wood laid on with a palette knife in orange, red and brown."""
    x, y = grid()
    target = ramp(noise(rng, 5, 3) * 0.7 + y * 0.3, palette("f8e0a0 f6b83f ee8a1c d3491a a3260f f0a030"))
    line = ridge(rng, 0.78, 0.10, 3, 3)[None, :]
    floor = ramp(noise(rng, 9, 3, 3.0), palette("2a0f08 5a1c0c a03a12 d9731c f4b548 6a2a10"))
    target = over(target, floor, smooth(y - line, -0.01, 0.02))
    angle = 2 * np.pi * noise(rng, 4, 2)
    for cx in (0.06, 0.2, 0.31, 0.52, 0.63, 0.82, 0.93):
        half = rng.uniform(0.010, 0.022) * (0.5 + 0.8 * y)
        lean = cx + 0.05 * (y - 0.5) * rng.uniform(-1, 1) + 0.008 * np.sin(y * 11 + cx * 30)
        trunk = smooth(half - np.abs(x - lean), -0.002, 0.004) * (y < 0.9)
        bark = ramp(np.clip((x - lean) / half * 0.5 + 0.5, 0, 1), palette("f2e2c4 8a5a3a 34160e 170908"))
        target = over(target, bark, trunk)
        angle = np.where(trunk > 0.5, np.pi / 2, angle)
    canvas = Canvas(blurred(target, 10))
    canvas.layer(rng, target, angle, 1500, 90, 52, 6, 16)
    canvas.layer(rng, target, angle, 2600, 46, 34, 4, 20)
    canvas.layer(rng, target, angle + 0.4, 1500, 34, 24, 3, 26)
    return canvas.lit(4.2, 1.0)


def pointillist(rng: Rng) -> Array:
    """River bank in the afternoon, built from dots of pure colour."""
    x, y = grid()
    target = ramp(y / 0.45 + 0.25 * (noise(rng, 4) - 0.5), palette("86b4e8 b9d2ee f6dfd0 fbe7a8"))
    far = ridge(rng, 0.42, 0.10, 5)[None, :]
    target = over(
        target, ramp(noise(rng, 12, 3), palette("3f5f9a 6a9a8a 9fc06a 7a6fb0")), smooth(y - far, 0, 0.01)
    )
    water = ramp(noise(rng, 8, 3, 6.0), palette("2a4aa0 4f86cf 9cc6ea f3d9a0 e88a4a 3a5ab0"))
    target = over(target, water, smooth(y, 0.44, 0.45))
    bank = 0.60 + 0.34 * x + 0.02 * np.sin(x * 20)
    meadow = ramp(noise(rng, 7, 4), palette("2a6a34 5fa03a a8cc40 ecdc58 f29a3a"))
    target = over(target, meadow, smooth(y - bank + 0.02 * noise(rng, 20, 2), 0, 0.015))
    for cx, cy, size in [(0.16, 0.27, 0.20), (0.02, 0.40, 0.14), (0.80, 0.30, 0.13), (0.95, 0.22, 0.16)]:
        reach = np.hypot(x - cx, (y - cy) * 0.85) / size + 0.5 * (noise(rng, 9, 3) - 0.5)
        light = (x - cx + (cy - y) * 1.4) / size * 0.35 + 0.45 + 0.4 * (noise(rng, 16, 2) - 0.5)
        leaves = ramp(light, palette("2a1c5c 1f5a4a 3f8a3a 9ac040 f4e060"))
        trunk = smooth(0.012 - np.abs(x - cx), 0, 0.004) * (y > cy) * (y < cy + size * 2.0)
        target = over(
            over(target, ramp(y, [rgb("40204a"), rgb("3a2038")]), trunk), leaves, smooth(1 - reach, 0, 0.06)
        )
    image = Image.new("RGB", (N, N), rgb("efe4cc"))
    pen = ImageDraw.Draw(image)
    accents = np.array(palette("f4762a 3a3ab0 f8e04a d83a6a 2a9a8a fff8e8 4a1a5a"), dtype=float)
    for radius, spacing in ((9.5, 14), (7.5, 15), (6.0, 18)):
        lattice = np.stack(np.meshgrid(np.arange(0, N, spacing), np.arange(0, N, spacing)), -1).reshape(-1, 2)
        for px, py in rng.permutation(lattice + rng.normal(0, spacing * 0.25, lattice.shape)):
            base = target[int(np.clip(py, 0, N - 1)), int(np.clip(px, 0, N - 1))]
            pure = (
                base.mean()
                + (base - base.mean()) * 1.2
                + rng.choice([-42, -12, 12, 42])
                + rng.normal(0, 15, 3)
            )
            if rng.random() < 0.20:
                pure = 0.5 * pure + 0.5 * accents[rng.integers(len(accents))]
            size = radius * rng.uniform(0.75, 1.1)
            dot = tuple(int(v) for v in np.clip(pure, 0, 255))
            pen.ellipse((px - size, py - size, px + size, py + size), fill=dot)
    return to_array(image)


def wax_crayon(rng: Rng) -> Array:
    """House, rainbow and sun scribbled with wax crayons on rough paper."""
    x, y = grid()
    target = ramp(noise(rng, 5, 2), palette("38b6f2 6fd0fa 2f8fe8 b8ecff"))
    angle = np.full_like(x, -0.5)
    bow = np.hypot(x - 0.62, y - 0.78)
    band = np.clip((bow - 0.36) / 0.26, 0, 1)
    target = np.where(
        ((bow > 0.36) & (bow < 0.62))[..., None],
        ramp(np.floor(band * 6) / 5, palette("8a3ad8 2f6af2 25b84a ffe11f ff8a1a f22a3a")),
        target,
    )
    angle = np.where((bow > 0.36) & (bow < 0.62), np.arctan2(y - 0.78, x - 0.62) + np.pi / 2, angle)
    sun = np.hypot(x - 0.15, y - 0.16)
    rays = (sun < 0.26) & ((sun < 0.13) | (np.cos(np.arctan2(y - 0.16, x - 0.15) * 11) > 0.1))
    target = np.where(rays[..., None], ramp(sun / 0.26, palette("ffd21a ffe640 ff9a1a ff7a1a")), target)
    angle = np.where(rays, np.arctan2(y - 0.16, x - 0.15) + (sun < 0.13) * 1.2, angle)
    grass = y > 0.74 + 0.03 * np.sin(x * 9)
    target = np.where(
        grass[..., None], ramp(noise(rng, 9, 2), palette("1f9a3a 5fd03a a8e83a 12702a")), target
    )
    angle = np.where(grass, -1.35, angle)
    flower = grass & (np.hypot((x * 9) % 1 - 0.5, ((y - 0.04 * np.sin(x * 40)) * 9) % 1 - 0.5) < 0.24)
    target = np.where(
        flower[..., None], ramp(noise(rng, 10, 1), palette("ff3a9a f22a3a ffe11f ffffff b83af2")), target
    )
    wall = (np.abs(x - 0.62) < 0.19) & (y > 0.52) & (y < 0.86)
    roof = (y < 0.54) & (y > 0.33) & (np.abs(x - 0.62) < (y - 0.31) * 1.06)
    window = wall & (np.abs(np.abs(x - 0.62) - 0.11) < 0.045) & (np.abs(y - 0.63) < 0.05)
    door = wall & (np.abs(x - 0.62) < 0.045) & (y > 0.68)
    for shape, codes, turn in [
        (wall, "ff5a4a f22a3a ff8a6a", 1.45),
        (roof, "5a2a8a 8a3ad8 3a1a6a", 0.6),
        (window, "fff6b0 ffe11f ffffff", 0.1),
        (door, "3a2414 6a3a1a 8a4a1a", 1.5),
    ]:
        target = np.where(shape[..., None], ramp(noise(rng, 12, 1), palette(codes)), target)
        angle = np.where(shape, turn, angle)
    canvas = Canvas(rgb("f6f0e2"))
    angle = angle + 0.5 * (noise(rng, 8, 2) - 0.5)
    canvas.layer(rng, target, angle, 5200, 84, 13, 3, 16)
    canvas.layer(rng, target * 0.72, angle + 0.3, 1500, 64, 9, 2, 14)
    canvas.layer(rng, target * 0.4 + 150, angle - 0.2, 700, 64, 8, 2, 10)
    tooth = noise(rng, 130, 2) * 0.7 + noise(rng, 40, 2) * 0.3
    paper = np.array(rgb("f8f2e4")) - 14 * noise(rng, 120, 2)[..., None]
    return over(canvas.lit(1.2, 0.3), paper, smooth(tooth, 0.60, 0.72) * 0.9)
