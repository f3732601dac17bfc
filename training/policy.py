"""Make runs of the current model to train on: what the U-Net is given at every step of real MAST pictures.

    python -m training.policy --images DIR --work DIR [--init MODEL_FOLDER] [--runs 24] [--keep 96]
        [--size 128,192,256] [--every MINUTES]

Photos and paintings are drawn from the training pictures, one or two regions a photo, with random soft
masks. New runs go into WORK/policy.pt, the oldest ones leave it; `training.unet --policy` takes batches
from it, and reads it again when it has changed. A picture counts as a painting when the name of its folder
or archive says so.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mast.backbone.backbone import Backbone
from mast.core.ddim import Schedule
from mast.core.masks import area_resample
from mast.features.library import Library
from mast.methods import Mast, Reference, Scene
from training.checkpoint import current_backbone
from training.images import ENLARGED, Listed, list_images, random_crop, to_tensor
from training.perceptual import Look
from training.run import Run, load, save, sizes

STEPS = 12
GROUP = 3  # photos, and paintings, that share their inversions
SIZES = (128, 192, 256)
TRIES = 200
LATE, MOSTLY = 450, 0.85  # the moments that are trained on: at timesteps up to this, with this probability


def make_runs(
    backbone: Backbone, listed: Sequence[Listed], size: int, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Runs of a few photos and paintings of one size, once with one and once with two regions each.

    A run is a dictionary of: photo (3, s, s) and styles (n, 3, s, s), uint8; masks (n, s, s) float16;
    timesteps, k of them; stylized, content (k, c, h, w) and references (n, k, c, h, w), float16: the latents
    at these timesteps; final (c, h, w); and the options of the method.
    """
    photos = draw([entry for entry in listed if not entry.painting], size, rng)
    paintings = draw([entry for entry in listed if entry.painting] or listed, size, rng)
    schedule, method = backbone.schedule(STEPS), Mast(**backbone.defaults.get("mast", {}))
    library = Library(backbone, schedule, True, torch.float16, None, True)
    for number, photo in enumerate(photos):
        for n in (1, 2):
            chosen = [paintings[(number + n + i) % len(paintings)] for i in range(n)]
            yield run_once(library, schedule, method, photo, chosen, random_masks(n, size, rng))


def draw(listed: Sequence[Listed], size: int, rng: np.random.Generator) -> list[Tensor]:
    """Crops (1, 3, size, size) of different pictures that are large enough for them."""
    found: list[Tensor] = []
    for index in rng.permutation(len(listed))[:TRIES]:
        picture = listed[index].read()
        if picture is not None and min(picture.size) * ENLARGED >= size:
            found.append(to_tensor([random_crop(np.asarray(picture), size, rng)]))
        if len(found) == GROUP:
            return found
    raise ValueError(f"fewer than {GROUP} of {len(listed)} pictures are large enough for crops of {size} px")


def random_masks(n: int, size: int, rng: np.random.Generator) -> Tensor:
    """(n, size, size): one region, often the whole picture, or two that tile it; with soft borders."""
    if n == 1 and rng.random() < 0.6:
        return torch.ones(1, size, size)
    coarse = torch.from_numpy(rng.standard_normal((1, 1, 4, 4), dtype=np.float32))
    field = F.interpolate(coarse, (size, size), mode="bicubic", align_corners=True)[0]
    level = field.quantile(float(rng.uniform(0.3, 0.7)))
    mask = ((field - level) / float(rng.uniform(0.02, 0.2))).sigmoid()
    return mask if n == 1 else torch.cat([mask, 1 - mask])


def run_once(
    library: Library, schedule: Schedule, method: Mast, photo: Tensor, styles: Sequence[Tensor], masks: Tensor
) -> dict[str, Any]:
    """One MAST picture, with all that the U-Net was given on the way."""
    backbone = library.backbone
    latent = (photo.shape[2] // backbone.latent_stride, photo.shape[3] // backbone.latent_stride)
    references = [
        Reference(*library.look_up(image, wants, lambda _: None), latent=latent)
        for image, wants in [(photo, method.content_features), *((s, method.style_features) for s in styles)]
    ]
    grids = {latent, *(site.grid(latent) for site in backbone.sites)}
    on_grids = {grid: area_resample(masks, grid) for grid in grids}
    scene = Scene(backbone, schedule, references[0], references[1:], on_grids, latent)
    reached = [method.start(scene)]

    def keep(step: int, z: Tensor, x0: Tensor) -> None:
        reached.append(z)

    final = method.sample(scene, keep)
    order = list(range(len(schedule) - 1, 0, -1))  # the steps at which the U-Net was asked, in this order
    points = torch.stack([reference.trajectory.points[order] for reference in references])
    return {
        "photo": to_bytes(photo)[0],
        "styles": torch.cat([to_bytes(style) for style in styles]),
        "masks": masks.half(),
        "timesteps": [schedule.timesteps[i] for i in order],
        "stylized": torch.cat(reached[:-1]).half(),
        "content": points[0].half(),
        "references": points[1:].half(),
        "final": final[0].half(),
        "method": method.options(),
    }


def to_bytes(image: Tensor) -> Tensor:
    """[-1, 1] -> uint8, rounded."""
    return ((image.clamp(-1, 1) + 1) * 127.5).round().byte()


@dataclass
class PolicyBatch:
    """b moments of runs with the same number n of regions: photo (b, 3, s, s) and styles (b, n, 3, s, s) in
    [-1, 1], masks (b, n, s, s), t (b), latents stylized (b, c, h, w) and references (b (1 + n), c, h, w): b
    photos, b first styles, ...
    """

    runs: list[dict[str, Any]]
    photo: Tensor
    styles: Tensor
    masks: Tensor
    t: Tensor
    stylized: Tensor
    references: Tensor
    method: Mast

    def style_looks(self, look: Callable[[Tensor], Look]) -> list[Look]:
        """The moments of the first styles, of the second ones, ...

        Each run keeps its own, since it will be drawn again.
        """
        for run, styles in zip(self.runs, self.styles, strict=True):
            if "looks" not in run:
                seen = [look(picture[None]) for picture in styles]
                run["looks"] = [replace(style, structure=style.structure[:0]) for style in seen]
        return [Look.join(same) for same in zip(*(run["looks"] for run in self.runs), strict=True)]


class Pool:
    """The runs of a file, which is read again when it has changed."""

    def __init__(self, path: Path):
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path}: make it with python -m training.policy")
        self.path, self.read_at = path, 0.0
        self.groups: list[list[dict[str, Any]]] = []

    def refresh(self) -> None:
        """Groups the runs by number of regions and size."""
        changed = self.path.stat().st_mtime
        if changed != self.read_at:
            groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
            for run in load(self.path)["runs"]:
                groups.setdefault(tuple(run["masks"].shape), []).append(run)
            self.groups, self.read_at = list(groups.values()), changed

    @staticmethod
    def moment(timesteps: Sequence[int], rng: np.random.Generator) -> int:
        """Which of a run's timesteps: mostly a late one, since style hardly grew there by itself."""
        late = [i for i, t in enumerate(timesteps) if t <= LATE]
        among = late if late and rng.random() < MOSTLY else range(len(timesteps))
        return int(rng.choice(among))

    def batch(self, pixels: int, rng: np.random.Generator) -> PolicyBatch:
        """Moments of one group of runs, drawn at random: as many as make up `pixels`, but one at least."""
        self.refresh()
        counts = np.array([len(group) for group in self.groups])
        group = self.groups[rng.choice(len(counts), p=counts / counts.sum())]
        count = max(1, min(len(group), round(pixels / group[0]["masks"][0].numel())))
        runs = [group[i] for i in rng.choice(len(group), count, replace=False)]
        at = [self.moment(run["timesteps"], rng) for run in runs]
        rows = [
            torch.stack([run["content"][i] for run, i in zip(runs, at, strict=True)]),
            *(
                torch.stack([run["references"][n, i] for run, i in zip(runs, at, strict=True)])
                for n in range(len(runs[0]["masks"]))
            ),
        ]
        return PolicyBatch(
            runs=runs,
            photo=torch.stack([run["photo"] for run in runs]).float() / 127.5 - 1,
            styles=torch.stack([run["styles"] for run in runs]).float() / 127.5 - 1,
            masks=torch.stack([run["masks"] for run in runs]).float(),
            t=torch.tensor([run["timesteps"][i] for run, i in zip(runs, at, strict=True)]),
            stylized=torch.stack([run["stylized"][i] for run, i in zip(runs, at, strict=True)]).float(),
            references=torch.cat(rows).float(),
            method=Mast(**runs[0]["method"]),
        )


def extend(
    path: Path,
    backbone: Backbone,
    listed: Sequence[Listed],
    runs: int,
    keep: int,
    crop_sizes: Sequence[int],
    seed: int,
) -> int:
    """Adds new runs to the file and drops the oldest beyond `keep`; returns how many it holds then."""
    rng = np.random.default_rng(seed)
    fresh: list[dict[str, Any]] = []
    while len(fresh) < runs:
        fresh += list(make_runs(backbone, listed, int(rng.choice(crop_sizes)), rng))
    before = load(path)["runs"] if path.exists() else []
    held = [*before, *fresh][-keep:]
    save({"runs": held}, path)
    return len(held)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.policy", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--images", type=Path, required=True, nargs="+", help="folders of training pictures")
    parser.add_argument("--work", type=Path, required=True, help="the folder of the checkpoint")
    parser.add_argument("--init", type=Path, help="a model folder, for what WORK does not have")
    parser.add_argument("--runs", type=int, default=24, help="new runs to make")
    parser.add_argument("--keep", type=int, default=96, help="runs that the file holds at most")
    parser.add_argument("--size", type=sizes, default=SIZES, help="crop sizes, e.g. 128,192,256")
    parser.add_argument("--every", type=float, metavar="MINUTES", help="go on and do so again and again")
    args = parser.parse_args(arguments)
    try:
        listed = [entry for folder in args.images for entry in list_images(folder)]
        with Run(minutes=float("inf")) as run:
            while run.left > 0:
                began = time.monotonic()
                backbone, step = current_backbone(args.work, args.init)
                held = extend(
                    args.work / "policy.pt",
                    backbone,
                    listed,
                    args.runs,
                    args.keep,
                    args.size,
                    int(time.time()),
                )
                took = time.monotonic() - began
                print(f"step {step}: {args.runs} new runs in {took:.0f} s, {held} in all", flush=True)
                if args.every is None:
                    break
                while run.left > 0 and time.monotonic() - began < args.every * 60:
                    time.sleep(1)
    except (FileNotFoundError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
