"""Write the held-out pictures as folders that `mast bench make` takes.

    python -m training.heldout --images DIR --out FOLDER [--photos 20] [--size 256]
    mast bench make BENCH --contents FOLDER/photos --labels FOLDER/labels --styles FOLDER/paintings -n 2,3

The middles of photos and paintings held out of training (see images.py), and for every photo a map of
four smooth regions, drawn by chance and the same on every machine.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from mast.images import save_png
from training.images import Part, centre_crop, list_images
from training.judge import MARGIN
from training.run import sizes

REGIONS = 4


def label_map(size: int, rng: np.random.Generator) -> np.ndarray:
    """(size, size) of 1..4: where which of as many smooth fields is highest."""
    coarse = torch.from_numpy(rng.standard_normal((1, REGIONS, 4, 4), dtype=np.float32))
    fields = F.interpolate(coarse, (size, size), mode="bicubic", align_corners=True)[0]
    return (fields.argmax(0) + 1).numpy().astype(np.uint8)


def write(images: Path, out: Path, most: int, size: int, part: Part = "held-out") -> dict[str, int]:
    """Writes the folders; how many pictures of each. Files of the same name are replaced."""
    counts = {"photos": 0, "labels": 0, "paintings": 0}
    for kind in counts:
        (out / kind).mkdir(parents=True, exist_ok=True)
    for entry in list_images(images, part):
        kind = "paintings" if entry.painting else "photos"
        picture = entry.read() if entry.painting or counts["photos"] < most else None
        if picture is None:
            continue
        name = f"{Path(entry.member).stem}.png"
        save_png(Image.fromarray(centre_crop(picture, size, MARGIN)), out / kind / name)
        if not entry.painting:
            labels = label_map(size, np.random.default_rng(counts["photos"]))
            save_png(Image.fromarray(labels), out / "labels" / name)
            counts["labels"] += 1
        counts[kind] += 1
    if not counts["photos"] or not counts["paintings"]:
        raise FileNotFoundError(f"{images} has no photos.tar and paintings.tar to hold pictures out of")
    return counts


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.heldout", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--images", type=Path, required=True, help="the folder with the archives")
    parser.add_argument("--out", type=Path, required=True, help="a folder outside the repository")
    parser.add_argument("--photos", type=int, default=20, help="so many photos at most")
    parser.add_argument("--size", type=sizes, default=(256,), help="of the squares, in pixels")
    parser.add_argument(
        "--part", choices=("held-out", "validation"), default="held-out", help="of the archives"
    )
    args = parser.parse_args(arguments)
    try:
        for kind, count in write(args.images, args.out, args.photos, args.size[0], args.part).items():
            print(f"{args.out / kind}: {count}")
    except OSError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
