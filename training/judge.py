"""Judge models on the pictures that are held out of all training (see images.py).

    python -m training.judge --images DIR --model A --model B ... [--pairs 20] [--sheet FILE.png]

The same photos, paintings and masks for every model: MAST at 256 px, 12 refined steps, one region and two.
For each model: the cosine of a region's Inception embedding with its style's (higher is more style), R-KID
(lower is more style), LPIPS to the photo (lower keeps more of it), the ratio of steps at cell borders (1 is
no grid) in the whole picture and in its flattest quarter, and the PSNR of inversion and back (plain 50 steps,
refined 12). The sheet shows twelve pairs.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mast import Backbone, Job, Mast, Region, Settings, load, stylize
from mast.images import save_png
from mast.images import to_tensor as one_tensor
from mast.metrics import (
    InceptionEncoder,
    Lpips,
    RegionPair,
    load_inception,
    load_lpips,
    region_distances,
    region_pairs,
    region_weights,
)
from mast.sheets import Tile, overlay, sheet
from training.borders import border_ratio, flat_ratio
from training.images import Part, centre_crop, list_images
from training.policy import random_masks
from training.roundtrip import round_trips

STEPS, SHOWN = 12, 12
REPEATS = 10  # draws of R-KID's references
MARGIN = 0.02  # cut off, so that no picture keeps its size: JPEG has a grid of 8 px, too
WAYS = ((50, "plain"), (12, "refined"))


@dataclass(frozen=True)
class Case:
    """A held-out photo with a held-out painting for each of its regions; masks (n, h, w)."""

    photo: Image.Image
    styles: tuple[Image.Image, ...]
    masks: Tensor

    @property
    def job(self) -> Job:
        regions = zip(self.styles, self.masks, strict=True)
        return Job(self.photo, tuple(Region(style, mask.numpy()) for style, mask in regions))


class Judges:
    """The networks that look at the pictures."""

    def __init__(self, inception: InceptionEncoder, lpips: Lpips):
        self.inception, self.lpips = inception, lpips
        self.styles: dict[str, Tensor] = {}  # maps (cells, 2048) of the styles met so far, by name

    def region_pairs(self, picture: Image.Image, case: Case, name: str) -> list[RegionPair]:
        """The picture's embeddings, region by region."""
        styles = [str(id(style)) for style in case.styles]
        fresh = {key: style for key, style in zip(styles, case.styles, strict=True) if key not in self.styles}
        maps = self.inception.maps([(tensor(x)[0] + 1) * 127.5 for x in (picture, *fresh.values())])
        self.styles |= dict(zip(fresh, maps[1:], strict=True))
        weights = region_weights(case.masks, self.inception.grid)
        return region_pairs(maps[0], weights, styles, name)[0]


def make_cases(
    folder: Path, n: int, count: int, size: int, seed: int = 0, part: Part = "held-out"
) -> list[Case]:
    """The first so many pairs of held-out photos and paintings; the same ones on every machine."""
    held = list_images(folder, part)
    pictures = {kind: [e.read() for e in held if e.painting == kind] for kind in (False, True)}
    photos, paintings = (
        [Image.fromarray(centre_crop(p, size, MARGIN)) for p in pictures[kind] if p] for kind in (False, True)
    )
    if not photos or len(paintings) < n:
        raise FileNotFoundError(f"{folder} has no photos.tar and paintings.tar to hold pictures out of")
    rng, cases = np.random.default_rng([seed, n]), []
    for number in range(count):
        styles = tuple(paintings[i] for i in rng.choice(len(paintings), n, replace=False))
        masks = torch.ones(1, size, size) if n == 1 else random_masks(n, size, rng)
        cases.append(Case(photos[number % len(photos)], styles, masks))
    return cases


def tensor(image: Image.Image) -> Tensor:
    """(1, 3, h, w) in [-1, 1]."""
    return one_tensor(image, image.size, image.size)


def paint(backbone: Backbone, case: Case) -> Image.Image:
    settings = Settings(steps=STEPS, inversion="refined", size=max(case.photo.size), cache=False)
    return stylize(case.job, backbone, Mast(**backbone.defaults.get("mast", {})), settings).image


def figures(pictures: Sequence[Image.Image], cases: Sequence[Case], judges: Judges) -> dict[str, float]:
    """What the judges say of a picture of every case."""
    pairs = [
        pair
        for number, (picture, case) in enumerate(zip(pictures, cases, strict=True))
        for pair in judges.region_pairs(picture, case, str(number))
    ]
    regions = region_distances(pairs, judges.styles.__getitem__, repeats=REPEATS)
    shown = [(tensor(picture), tensor(case.photo)) for picture, case in zip(pictures, cases, strict=True)]
    return {
        "cosine": float(regions.cosines.mean()),
        "R-KID": regions.rkid,
        "LPIPS": float(np.mean([judges.lpips(*pair).item() for pair in shown])),
        "borders": float(np.mean([border_ratio(pixels) for pixels, _ in shown])),
        "where flat": float(np.mean([flat_ratio(pixels) for pixels, _ in shown])),
    }


def measure(
    backbone: Backbone, cases: dict[int, list[Case]], trips: int, judges: Judges
) -> tuple[dict[str, float], list[Image.Image]]:
    """The figures of one model, and its pictures of all cases in order."""
    found: dict[str, float] = {}
    pictures = []
    for n, group in cases.items():
        made = [paint(backbone, case) for case in group]
        found |= {f"{name} N={n}": value for name, value in figures(made, group, judges).items()}
        pictures += made
    photos = list({id(case.photo): case.photo for group in cases.values() for case in group}.values())[:trips]
    for name, ratio in (("borders", border_ratio), ("where flat", flat_ratio)):
        found[f"{name}, photos"] = float(np.mean([ratio(tensor(photo)) for photo in photos]))
    ways = [round_trips(backbone, tensor(photo), WAYS) for photo in photos]
    found |= {f"{name}, dB": float(np.mean([way[name] for way in ways])) for name in ways[0]}
    return found, pictures


def draw(cases: Sequence[Case], pictures: dict[str, list[Image.Image]], height: int = 200) -> Image.Image:
    """A row a case: photo, regions, styles, and every model's picture."""
    rows = []
    for number, case in enumerate(cases):
        photo = case.photo if len(case.styles) == 1 else overlay(case.photo, case.masks.numpy())
        tiles = [Tile(photo, "photo"), *(Tile(style, "style") for style in case.styles)]
        rows.append([*tiles, *(Tile(made[number], name) for name, made in pictures.items())])
    return sheet(rows, height)


def table(measures: dict[str, dict[str, float]]) -> str:
    """A row a figure, a column a model."""
    names = list(measures)
    width = max(12, *(len(name) + 2 for name in names))
    lines = [f"{'':18}" + "".join(f"{name:>{width}}" for name in names)]
    for figure in measures[names[0]]:
        digits = 2 if figure.endswith("dB") else 4
        lines.append(f"{figure:18}" + "".join(f"{measures[n][figure]:{width}.{digits}f}" for n in names))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.judge", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--images", type=Path, required=True, help="the folder with photos.tar, paintings.tar"
    )
    parser.add_argument("--model", action="append", required=True, help="a model folder, or preview; repeat")
    parser.add_argument(
        "--part",
        choices=("held-out", "validation"),
        default="held-out",
        help="of the archives: validation while a model is trained or chosen, held-out once it is finished",
    )
    parser.add_argument("--pairs", type=int, default=20, help="pictures for each number of regions")
    parser.add_argument("--size", type=int, default=256, help="of the pictures, a multiple of 64")
    parser.add_argument("--trips", type=int, default=4, help="photos to send there and back")
    parser.add_argument("--inception", type=Path, help="FID's Inception; found or fetched unless given")
    parser.add_argument("--lpips", type=Path, help="alexnet.ckpt; found or fetched unless given")
    parser.add_argument("--sheet", type=Path, help="where to draw the first twelve pairs, a PNG")
    args = parser.parse_args(arguments)
    try:
        judges = Judges(load_inception("fid", args.inception), load_lpips("alex", args.lpips))
        cases = {n: make_cases(args.images, n, args.pairs, args.size, part=args.part) for n in (1, 2)}
        measures, pictures = {}, {}
        for name in args.model:
            began = time.monotonic()
            label = Path(name).name
            label = label if label not in measures else name
            measures[label], pictures[label] = measure(load(name), cases, args.trips, judges)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        print(
            f"\n{args.pairs} pictures with one region, {args.pairs} with two, {args.size} px, {STEPS} steps\n"
        )
        print(table(measures))
        if args.sheet:
            save_png(chosen(cases, pictures), args.sheet)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def chosen(cases: dict[int, list[Case]], pictures: dict[str, list[Image.Image]]) -> Image.Image:
    """The sheet: half of its rows with one region, half with two."""
    rows = [i for group in (cases[1], cases[2]) for i in range(min(SHOWN // 2, len(group)))]
    first = [*rows[: len(rows) // 2], *(len(cases[1]) + i for i in rows[len(rows) // 2 :])]
    every = [case for group in cases.values() for case in group]
    return draw(
        [every[i] for i in first], {name: [made[i] for i in first] for name, made in pictures.items()}
    )


if __name__ == "__main__":
    main()
