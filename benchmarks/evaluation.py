"""How long an evaluation takes: N pairs at 512 px with two regions each, from nothing and from the cache.

    python benchmarks/evaluation.py [N]

The pictures are crops of the bundled examples, so the numbers mean nothing; the time does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from mast.metrics import Options, evaluate, from_folders
from mast.weights.registry import locate

ROOT = Path(__file__).parents[1] / "examples"
SIDE = 512


def crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A random square of a picture, at 512 px."""
    side = int(min(image.size) * rng.uniform(0.6, 1))
    x, y = (int(rng.integers(0, length - side + 1)) for length in image.size)
    return image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, (x, y, x + side, y + side))


def write(folder: Path, count: int) -> list[Path]:
    """stylized/, content/, styles/ and masks/ with `count` results; each region has its own style file."""
    rng = np.random.default_rng(0)
    photos = [Image.open(path).convert("RGB") for path in sorted((ROOT / "photos").glob("*.jpg"))]
    styles = [Image.open(path).convert("RGB") for path in sorted((ROOT / "styles").glob("*.png"))]
    folders = [folder / name for name in ("stylized", "content", "styles", "masks")]
    for made in folders:
        made.mkdir()
    half = np.zeros((SIDE, SIDE), np.uint8)
    for i in range(count):
        crop(styles[i % len(styles)], rng).save(folders[0] / f"{i:03}.png")
        crop(photos[i % len(photos)], rng).save(folders[1] / f"{i:03}.png")
        half[:] = 0
        half[:, : int(rng.integers(64, SIDE - 64))] = 255
        for k, mask in enumerate((half, 255 - half)):
            crop(styles[(i + k) % len(styles)], rng).save(folders[2] / f"{i:03}-{k}.png")
            Image.fromarray(mask).save(folders[3] / f"{i:03}-{k}.png")
    return folders


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    options = Options(inception_weights=locate("fid-inception"), lpips_weights=locate("lpips-alex"))
    folder = Path(tempfile.mkdtemp(prefix="mast-evaluation-"))
    try:
        folders = write(folder, count)
        os.environ["MAST_CACHE"] = str(folder / "cache")
        for what in ("from nothing", "from the cache"):
            report = evaluate(from_folders(*folders), options)
            print(
                f"{what}: {count} pairs, {report.n_regions} regions: {report.seconds:.1f} s, "
                f"{report.seconds / count:.3f} s a pair (FID {report.fid:.3f}, R-FID {report.rfid:.3f})"
            )
        kept = sum(path.stat().st_size for path in (folder / "cache" / "metrics").iterdir())
        print(f"cache: {kept / count / 1e6:.2f} MB a pair")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
