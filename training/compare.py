"""Compare two models on pictures that neither was trained on, by figures that say nothing of style.

    python -m training.compare OLD NEW --images DIR_OF_UNSEEN [--size 256] [--steps 20]

v-loss by noise level, inversion and back (plain and refined), and the autoencoder by itself.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mast import Backbone, load
from training.diffusion import levels, velocity
from training.images import centre_crop, list_images, to_tensor
from training.roundtrip import round_trips

TIMESTEPS = tuple(range(50, 1000, 100))
Measures = dict[str, list[float]]  # by row of the table, one value a picture


def measure(backbone: Backbone, images: list[Tensor], steps: int, seed: int = 0) -> Measures:
    """Everything in the table for images (1, 3, h, w). The same seed gives two models the same noise."""
    measures: Measures = {}
    runs = ((steps, "plain"), (steps, "refined"))
    for number, image in enumerate(images):
        values = losses(backbone, image, torch.Generator().manual_seed(seed + number))
        values |= {f"{name}, dB": value for name, value in round_trips(backbone, image, runs).items()}
        for name, value in values.items():
            measures.setdefault(name, []).append(value)
    return measures


@torch.no_grad()
def losses(backbone: Backbone, image: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Mean squared error of v, by noise level."""
    clean, found = backbone.encode(image), {}
    for level in TIMESTEPS:
        t = torch.tensor([level])
        signal, noise = levels(t)
        noisy = signal * clean + noise * torch.randn(clean.shape, generator=generator)
        error = F.mse_loss(backbone.predict(noisy, level), velocity(noisy, clean, t))
        found[f"v-loss at t = {level}"] = error.item()
    return found


def table(old: Measures, new: Measures) -> str:
    """One row a measure: means, their difference, and on how many pictures the new model is better."""
    lines = [f"{'':34}{'old':>10}{'new':>10}{'change':>10}   better on"]
    for name in old:
        before, after = (sum(m[name]) / len(m[name]) for m in (old, new))
        gains = [b - a if name.endswith("dB") else a - b for a, b in zip(old[name], new[name], strict=True)]
        digits = 2 if name.endswith("dB") else 4
        cells = f"{before:10.{digits}f}{after:10.{digits}f}{after - before:+10.{digits}f}"
        lines.append(f"{name:34}{cells}   {sum(gain > 0 for gain in gains)} of {len(gains)}")
    return "\n".join(lines)


def load_unseen(folder: Path, size: int) -> list[Tensor]:
    """The middle of every picture, (1, 3, size, size) each."""
    pictures = (listed.read() for listed in list_images(folder))
    images = [to_tensor([centre_crop(picture, size)]) for picture in pictures if picture is not None]
    if not images:
        raise FileNotFoundError(f"no pictures in {folder}")
    return images


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.compare", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("old", metavar="OLD", help="a model folder, or preview")
    parser.add_argument("new", metavar="NEW", help="another one")
    parser.add_argument("--images", type=Path, required=True, help="pictures that neither model has seen")
    parser.add_argument(
        "--size", type=int, default=256, help="side of the square to compare on, a multiple of 64"
    )
    parser.add_argument("--steps", type=int, default=20, help="DDIM steps")
    args = parser.parse_args(arguments)
    if args.size < 64 or args.size % 64:
        parser.error(f"--size must be a multiple of 64, not {args.size}")
    try:
        images = load_unseen(args.images, args.size)
        old, new = (measure(load(name), images, args.steps) for name in (args.old, args.new))
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{len(images)} pictures of {args.size} px, {args.steps} steps\nold: {args.old}\nnew: {args.new}\n")
    print(table(old, new))


if __name__ == "__main__":
    main()
