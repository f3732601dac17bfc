"""Paint training pictures: the example painters with other seeds and other palettes than the bundled ones.

    python -m training.paint --out DIR [--count 140] [--seed 1]

512 px, PNG, one after another by all painters. DIR should lie outside the repository; what is there already
is kept, so that a larger count adds to it.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from mast.examples import examples_folder
from mast.images import save_png

# Luminance and two axes of colour (YIQ), in which a palette can be turned.
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


def load_painters() -> tuple[dict[str, Callable], int]:
    """The painters by name, and the size of their finished pictures. They come with a checkout only."""
    folder = examples_folder()
    if not (folder / "make_styles.py").is_file():
        raise FileNotFoundError(f"{folder} has no make_styles.py: paint from a checkout of the repository")
    sys.path.insert(0, str(folder))
    try:
        import make_styles
    finally:
        sys.path.remove(str(folder))
    return make_styles.PAINTERS, make_styles.SIZE


def recolour(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(h, w, 3) in 0..255 with hues turned, colours paler or stronger, tones darker or lighter."""
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.6, 1.3)
    cos, sin = strength * np.cos(angle), strength * np.sin(angle)
    turn = np.linalg.inv(YIQ) @ np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]) @ YIQ
    toned = 255 * (pixels.clip(0, 255) / 255) ** rng.uniform(0.75, 1.35)
    return toned @ turn.T


def paint(painter: Callable, size: int, rng: np.random.Generator) -> Image.Image:
    """One picture, in a new palette, mirrored half of the time."""
    pixels = recolour(painter(rng), rng).clip(0, 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels).resize((size, size), Image.Resampling.BOX)
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else picture


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.paint", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to paint into")
    parser.add_argument("--count", type=int, default=140, help="pictures in all")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    try:
        painters, size = load_painters()
        args.out.mkdir(parents=True, exist_ok=True)
        for number in range(args.count):
            name = list(painters)[number % len(painters)]
            path = args.out / f"painted-{args.seed}-{number:04}-{name}.png"
            if not path.exists():
                save_png(paint(painters[name], size, np.random.default_rng([args.seed, number])), path)
                print(path, flush=True)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
