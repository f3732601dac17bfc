"""Paint the example style pictures.

    python examples/make_styles.py              # all of them, into examples/styles/
    python examples/make_styles.py --only cubist

Each picture is drawn by a short function from a fixed seed, so a second run gives the same files.
Needs numpy and Pillow only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from painters import brush, glass, paper, prints
from painters.tools import SIZE, Array, Rng, to_image
from PIL import Image

PAINTERS: dict[str, Callable[[Rng], Array]] = {
    "starry-oil": brush.starry_oil,
    "impasto-autumn": brush.impasto_autumn,
    "pointillist": brush.pointillist,
    "watercolour": paper.watercolour,
    "ink-wash": paper.ink_wash,
    "wax-crayon": brush.wax_crayon,
    "cubist": paper.cubist,
    "woodcut": prints.woodcut,
    "stained-glass": glass.stained_glass,
    "ukiyo-waves": prints.ukiyo_waves,
    "gold-mosaic": glass.gold_mosaic,
    "neon-grid": glass.neon_grid,
    "batik": prints.batik,
    "marbled": prints.marbled,
}


def paint(name: str, folder: Path) -> Path:
    """Paint one style picture and save it; the seed comes from the name."""
    rng = np.random.default_rng(sum(name.encode()))
    picture = to_image(PAINTERS[name](rng)).resize((SIZE, SIZE), Image.Resampling.BOX)
    picture = picture.point([level & 0xFE for level in range(256)] * 3)  # even levels only: smaller files
    path = folder / f"{name}.png"
    picture.save(path, optimize=True)
    return path


def main() -> None:
    """Paint all pictures, or those named with ``--only``."""
    parser = argparse.ArgumentParser(description="Paint the example style pictures.")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=sorted(PAINTERS),
        help="paint this picture only (may be given more than once)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "styles", help="folder to write to"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or PAINTERS:
        start = time.perf_counter()
        path = paint(name, options.out)
        print(f"{path}  ({path.stat().st_size // 1024} kB, {time.perf_counter() - start:.1f} s)")


if __name__ == "__main__":
    main()
