"""How exactly a model comes back from its own inversion, on the bundled photos.

    python -m training.roundtrip [--model preview] [--size 512]

PSNR in dB of the autoencoder against the photo, and of inversion and denoising without control against the
autoencoder: the paper's plain inversion with 50 steps, and refined inversion with 20 and 12.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from mast import Backbone, Reconstruct, load
from mast.examples import examples_folder
from mast.features.inversion import invert
from mast.images import read_rgb, to_tensor, work_size
from mast.methods import Reference, Scene

RUNS = ((50, "plain"), (20, "refined"), (12, "refined"))


def psnr(a: Tensor, b: Tensor) -> float:
    """Of images (b, 3, h, w) in [-1, 1]."""
    return float(10 * torch.log10(4 / (a - b).pow(2).mean()))


def round_trip(backbone: Backbone, clean: Tensor, steps: int, inversion: str) -> Tensor:
    """Clean latent (1, c, h, w) -> the latent that inversion and denoising make of it."""
    schedule = backbone.schedule(steps)
    trajectory = invert(backbone, clean, schedule, refined=inversion == "refined")
    latent = (clean.shape[2], clean.shape[3])
    return Reconstruct().sample(Scene(backbone, schedule, Reference(trajectory), [], {}, latent))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="preview")
    parser.add_argument("--size", type=int, default=512)
    options = parser.parse_args()
    backbone = load(options.model)
    for path in sorted((examples_folder() / "photos").glob("*.jpg")):
        photo = read_rgb(path)
        image = to_tensor(photo, *work_size(*photo.size, options.size, backbone.stride, "resize"))
        clean = backbone.encode(image)
        own = backbone.decode(clean)
        found = [f"autoencoder {psnr(own, image):.1f}"]
        for steps, inversion in RUNS:
            back = backbone.decode(round_trip(backbone, clean, steps, inversion))
            found.append(f"{steps} {inversion} {psnr(back, own):.1f}")
        print(f"{path.stem}: " + ", ".join(found), flush=True)


if __name__ == "__main__":
    main()
