"""Which style goes where: pairs of bundled styles on the example photos, painted both ways. Does the way that
`mast assign` takes keep more of the photo?

    python benchmarks/assign.py                        # four pairs for each photo, drawn by seed 7
    python benchmarks/assign.py --pairs 2 --seed 11
    python benchmarks/assign.py --pairs 1 --photos cat

edges, light: the correlation of a picture's edges, and of its light and dark, with the photo's: as assigned,
and the other way round. Seconds are the processor's, on one thread, for seeing and matching a pair.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from measure import arguments, show, write
from PIL import Image, ImageFilter

import mast
from mast.images import read_rgb
from mast.regions.assign import CLEAR, assign
from mast.regions.auto import at_most, divide
from mast.regions.partition import NamedMasks
from mast.regions.salient import SalientObject
from mast.regions.sam.model import MobileSam

EXAMPLES = Path(__file__).parents[1] / "examples"
PHOTO, SIZE = 320, 256  # pixels of the longer side: of the photos, and at which they are painted


def likeness(picture: Image.Image, photo: Image.Image) -> tuple[float, float]:
    """Of edges, and of light and dark: how they correlate."""
    maps = []
    for one in (picture, photo):
        small = one.convert("L").resize((SIZE, SIZE)).filter(ImageFilter.GaussianBlur(1))
        light = np.asarray(small, float)
        maps.append((np.hypot(*np.gradient(light)), light))
    edges, light = (float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) for a, b in zip(*maps, strict=True))
    return edges, light


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=4, help="of styles, for each photo; 1 with --quick")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--photos", default="", help="names with commas; all example photos")
    options = parser.parse_args()
    torch.set_num_threads(1)
    backbone = mast.load("preview", device="cpu")
    settings = mast.default_settings(backbone, size=SIZE)
    styles = {path.stem: read_rgb(path) for path in sorted((EXAMPLES / "styles").iterdir())}
    segmenters = MobileSam(), SalientObject()
    rng, rows = random.Random(options.seed), []
    for path in sorted((EXAMPLES / "photos").iterdir()):
        if options.photos and path.stem not in options.photos.split(","):
            continue
        whole = read_rgb(path)
        photo, found_in = at_most(whole, PHOTO), divide(whole, 2, *segmenters).regions
        small = [np.asarray(Image.fromarray(mask).resize(photo.size)).clip(0, 1) for mask in found_in.masks]
        regions = NamedMasks(found_in.names, np.stack(small))
        for _ in range(1 if options.quick else options.pairs):
            names = rng.sample(list(styles), 2)
            began = time.process_time()
            found = assign(photo, regions, [styles[name] for name in names], backbone)
            took = time.process_time() - began
            ways = []
            for way in (found.styles, found.styles[::-1]):
                parts = zip(way, regions.masks, strict=True)
                job = mast.Job(photo, tuple(mast.Region(styles[names[j]], mask) for j, mask in parts))
                ways.append(likeness(mast.stylize(job, backbone, "mast", settings).image, photo))
            (edges, light), (other_edges, other_light) = ways
            rows.append(
                {
                    "photo": path.stem,
                    "object, background": ", ".join(names[j] for j in found.styles),
                    "margin": round(found.margin or 0.0, 2),
                    "edges": round(edges, 3),
                    "edges, other way": round(other_edges, 3),
                    "light": round(light, 3),
                    "light, other way": round(other_light, 3),
                    "better": edges + light > other_edges + other_light,
                    "seconds": round(took, 2),
                }
            )
    mean = lambda name: round(statistics.fmean(row[name] for row in rows), 3)
    clear = [row for row in rows if row["margin"] >= CLEAR]
    summary = {name: mean(name) for name in ("edges", "edges, other way", "light", "light, other way")}
    summary |= {
        "pairs": len(rows),
        "better": sum(row["better"] for row in rows),
        "clear": len(clear),
        "clear and better": sum(row["better"] for row in clear),
        "seconds": statistics.median(row["seconds"] for row in rows),
    }
    show(rows, "pairs of styles, both ways")
    show([summary], "all of them")
    write(rows, options.json)


if __name__ == "__main__":
    main()
