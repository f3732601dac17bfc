"""Compare two model folders on pictures that neither was trained on.

    python -m training.compare OLD NEW --images DIR_OF_UNSEEN [--size 256] [--steps 20]

v-loss by noise level, inversion and back (plain and refined), and the autoencoder by itself.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.preview.autoencoder import PatchAutoencoder
from training.decoder import psnr
from training.diffusion import (
    ddim_timesteps,
    denoise,
    empty_prompt,
    invert,
    levels,
    noise_predictor,
    velocity,
)
from training.images import centre_crop, read_images, to_tensor
from training.unet import exported_unet

TIMESTEPS = tuple(range(50, 1000, 100))
Measures = dict[str, list[float]]  # by row of the table, one value a picture


@dataclass(frozen=True)
class Model:
    unet: UNet2DConditionModel
    autoencoder: PatchAutoencoder

    @classmethod
    def from_folder(cls, folder: Path) -> "Model":
        autoencoder = PatchAutoencoder.from_folder(folder / "autoencoder")
        return cls(exported_unet(folder), autoencoder.eval().requires_grad_(False))


def measure(model: Model, images: list[Tensor], steps: int, seed: int = 0) -> Measures:
    """Everything in the table for images (1, 3, h, w). The same seed gives two models the same noise."""
    measures: Measures = {}
    for number, image in enumerate(images):
        values = losses(model, image, torch.Generator().manual_seed(seed + number)) | round_trips(
            model, image, steps
        )
        for name, value in values.items():
            measures.setdefault(name, []).append(value)
    return measures


@torch.no_grad()
def losses(model: Model, image: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Mean squared error of v, by noise level. All levels go through the U-Net as one batch."""
    clean, t = model.autoencoder.encode(image), torch.tensor(TIMESTEPS)
    signal, noise = levels(t)
    noisy = signal * clean + noise * torch.randn((len(t), *clean.shape[1:]), generator=generator)
    predicted = model.unet(noisy, t, empty_prompt(model.unet, len(t))).sample
    errors = F.mse_loss(predicted, velocity(noisy, clean, t), reduction="none").mean((1, 2, 3))
    return {f"v-loss at t = {level}": error.item() for level, error in zip(TIMESTEPS, errors, strict=True)}


@torch.no_grad()
def round_trips(model: Model, image: Tensor, steps: int) -> dict[str, float]:
    """PSNR of the autoencoder against the picture, and of inversion and back against the autoencoder."""
    latent = model.autoencoder.encode(image)
    reconstruction = model.autoencoder.decode(latent).clamp(-1, 1)
    values = {"autoencoder, dB": psnr(reconstruction, image)}
    predict, timesteps = noise_predictor(model.unet), ddim_timesteps(steps)
    for name, corrections in (("plain", 0), ("refined", 1)):
        back = denoise(invert(latent, predict, timesteps, corrections), predict, timesteps)
        values[f"inversion and back, {name}, dB"] = psnr(
            model.autoencoder.decode(back).clamp(-1, 1), reconstruction
        )
    return values


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
    images = [to_tensor([centre_crop(picture, size)]) for _, picture in read_images(folder)]
    if not images:
        raise FileNotFoundError(f"no pictures in {folder}")
    return images


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.compare", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="a model folder")
    parser.add_argument("new", type=Path, metavar="NEW", help="another one")
    parser.add_argument("--images", type=Path, required=True, help="pictures that neither model has seen")
    parser.add_argument(
        "--size", type=int, default=256, help="side of the square to compare on, a multiple of 8"
    )
    parser.add_argument("--steps", type=int, default=20, help="DDIM steps")
    args = parser.parse_args(arguments)
    if args.size < 64 or args.size % 8:
        parser.error(f"--size must be a multiple of 8 from 64 on, not {args.size}")
    try:
        images = load_unseen(args.images, args.size)
        old, new = (measure(Model.from_folder(folder), images, args.steps) for folder in (args.old, args.new))
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{len(images)} pictures of {args.size} px, {args.steps} steps\nold: {args.old}\nnew: {args.new}\n")
    print(table(old, new))


if __name__ == "__main__":
    main()
