"""Regions: seconds and memory of finding them, and how well `mast regions auto` agrees with maps people drew.

    python benchmarks/regions.py                                   # the example photos and their masks
    python benchmarks/regions.py bsds/images --truth bsds/groundTruth -n 0
    python benchmarks/regions.py PHOTO ... -n 2,3,4 --sheet out.jpg

--truth is a folder of label maps of the photos' names (.png, .npy, or BSDS's .mat, one map of each person).
-n 0 asks for as many regions as a person drew, up to 16. Seconds are the processor's, on one thread, so that
others on the machine do not count. embed: once a photo; click: after it; salient, propose, divide: `auto`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import arguments, peak_extra, show, write
from PIL import Image

from mast.features.cache import Cache
from mast.images import read_rgb
from mast.regions.auto import LOOK, MOST_REGIONS, at_most, divide
from mast.regions.labels import SUFFIXES, at_size, read_labels, read_segmentations
from mast.regions.partition import NamedMasks, boundary_recall, covering
from mast.regions.salient import SalientObject
from mast.regions.sam.model import MobileSam
from mast.regions.segment import Prompt, Proposal
from mast.regions.show import front, outlined, palette
from mast.regions.sources import MaskSource, pictures
from mast.sheets import Tile, overlay, sheet

EXAMPLES = Path(__file__).parents[1] / "examples"
TOLERANCE = 0.0075  # of the diagonal: how near a border must be, as BSDS has it


class Once:
    """A segmenter that is asked once for each photo, however many divisions are made of it."""

    def __init__(self, segmenter: Any):
        self.name, self.segmenter, self.known = segmenter.name, segmenter, {}

    def propose(self, photo: Image.Image) -> list[Proposal]:
        key = photo.tobytes()
        if key not in self.known:
            self.known = {key: self.segmenter.propose(photo)}
        return self.known[key]


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def truths(folder: Path | None, path: Path, size: tuple[int, int], n: int) -> list[np.ndarray]:
    """The maps drawn of a photo: in a folder of them, else among the examples' masks."""
    if folder is not None:
        for file in (folder / f"{path.stem}{suffix}" for suffix in SUFFIXES):
            if file.is_file():
                maps = read_segmentations(file) if file.suffix == ".mat" else [read_labels(file)]
                return [at_size(labels, size, str(file)) for labels in maps]
        return []
    if path.parent.resolve() != (EXAMPLES / "photos").resolve():
        return []
    drawn = MaskSource(EXAMPLES / "masks", [path.stem]).objects(path, size).partition(n)
    return [] if drawn is None else [drawn.regions]


def tile(photo: Image.Image, regions: NamedMasks, text: str) -> Tile:
    seen = overlay(photo, regions.masks, 0.6, palette(len(regions.names)))
    return Tile(outlined(seen, regions), text)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("photos", nargs="*", type=Path, help="photos, or folders of them")
    parser.add_argument("--truth", type=Path, help="a folder of label maps")
    parser.add_argument("-n", default="2,3", help="numbers of regions; 0: as many as were drawn")
    parser.add_argument("--sheet", type=Path, help="write the regions over the photos to this file")
    parser.add_argument("--height", type=int, default=150, help="of the sheet's pictures")
    parser.add_argument("--columns", type=int, default=1, help="photos side by side on the sheet")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given = options.photos or [EXAMPLES / "photos"]
    photos = [path for one in given for path in (pictures(one) if one.is_dir() else [one])]
    photos = photos[: 2 if options.quick else None]
    with tempfile.TemporaryDirectory() as folder:
        memory, loaded = peak_extra(lambda: (MobileSam(cache=Cache(Path(folder))), SalientObject()))
        sam, eye = loaded
        rows, tiles, most = measure(photos, options, sam, eye)
    show(rows, "regions")
    for name in ("embed", "click", "salient", "propose", "divide"):
        print(f"{name}: median {statistics.median(row[f'{name} s'] for row in rows):.2f} s of the processor")
    for name in ("covering", "recall"):
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            print(f"{name}: mean {statistics.mean(values):.3f} of {len(values)} divisions")
    print(f"memory: {memory >> 20} MB for the networks, at most {most >> 20} MB more while they work")
    write(rows, options.json)
    if options.sheet:
        side = options.columns
        lines = [list(chain(*tiles[i : i + side])) for i in range(0, len(tiles), side)]
        sheet(lines, options.height).save(options.sheet, quality=82)


def measure(
    photos: list[Path], options: Any, sam: MobileSam, eye: SalientObject
) -> tuple[list[dict[str, Any]], list[list[Tile]], int]:
    rows, tiles, most = [], [], 0
    for path in photos:
        photo = read_rgb(path, "photo")
        middle = Prompt(at=((photo.width / 2, photo.height / 2),))
        large = at_most(photo, LOOK)
        found, seen = Once(sam), Once(eye)
        costs, memory = {}, []
        for name, function in {
            "embed s": lambda photo=photo: sam.embed(photo),
            "click s": lambda photo=photo, middle=middle: sam.select(photo, middle),
            "salient s": lambda large=large, seen=seen: seen.propose(large),
            "propose s": lambda large=large, found=found: found.propose(large),
        }.items():
            extra, (costs[name], _) = peak_extra(lambda function=function: seconds(function))
            memory.append(extra)
        line = [Tile(photo, path.stem)]
        for wanted in map(int, options.n.split(",")):
            drawn = truths(options.truth, path, photo.size, wanted or 3)
            for truth in drawn if wanted == 0 and drawn else [None]:
                n = min(MOST_REGIONS, max(2, len(np.unique(truth)))) if truth is not None else wanted or 3
                extra, (divided, made) = peak_extra(
                    lambda photo=photo, n=n, f=found, e=seen: seconds(lambda: divide(photo, n, f, e))
                )
                labels = front(made.regions)
                near = max(1, round(TOLERANCE * float(np.hypot(*photo.size))))
                compared = [truth] if truth is not None else drawn
                rows.append(
                    {
                        "photo": path.stem,
                        "size": f"{photo.width}x{photo.height}",
                        "n": n,
                        **costs,
                        "divide s": divided,
                        "covering": _mean([covering(labels, one) for one in compared]),
                        "recall": _mean([boundary_recall(labels, one, near) for one in compared]),
                        "by colour": "yes" if made.notes else "",
                    }
                )
                most = max(most, extra, *memory)
                line.append(tile(photo, made.regions, f"n = {n}"))
        tiles.append(line)
    return rows, tiles, most


def _mean(values: list[float]) -> float | None:
    return statistics.mean(values) if values else None


if __name__ == "__main__":
    main()
