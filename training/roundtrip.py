"""How exactly a model comes back from its own inversion, on the bundled photos.

    python -m training.roundtrip [--model preview] [--size 512]

PSNR in dB of the autoencoder against the photo, and of inversion and denoising without control against the
autoencoder: the paper's plain inversion with 50 steps, and refined inversion with 20 and 12.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch import Tensor

from mast import Backbone, Reconstruct, load
from mast.examples import examples_folder
from mast.features.inversion import invert
from mast.images import read_rgb, to_tensor, work_size
from mast.methods import Reference, Scene
from training.perceptual import psnr

RUNS = ((50, "plain"), (20, "refined"), (12, "refined"))


def round_trip(backbone: Backbone, clean: Tensor, steps: int, inversion: str) -> Tensor:
    """Clean latent (1, c, h, w) -> the latent that inversion and denoising make of it."""
    schedule = backbone.schedule(steps)
    trajectory = invert(backbone, clean, schedule, refined=inversion == "refined")
    latent = (clean.shape[2], clean.shape[3])
    return Reconstruct().sample(Scene(backbone, schedule, Reference(trajectory), [], {}, latent))


def round_trips(backbone: Backbone, image: Tensor, runs: Sequence[tuple[int, str]]) -> dict[str, float]:
    """PSNR of the autoencoder against an image (1, 3, h, w), and of each way there and back against the
    autoencoder.
    """
    clean = backbone.encode(image)
    own = backbone.decode(clean)
    found = {"autoencoder": psnr(own, image)}
    for steps, inversion in runs:
        back = backbone.decode(round_trip(backbone, clean, steps, inversion))
        found[f"{steps} {inversion}"] = psnr(back, own)
    return found


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
        found = round_trips(backbone, image, RUNS)
        print(f"{path.stem}: " + ", ".join(f"{name} {dB:.1f}" for name, dB in found.items()), flush=True)


if __name__ == "__main__":
    main()
