"""Make the pictures of the README and of docs/ anew that the embedded model paints: `make pictures`.

    python docs/pictures.py [NAME ...] [--out docs/images]

After a change of the weights, or of anything that shows. Every picture comes from the command line, whose
words are printed. The studio's have their own: make screenshots.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from mast.examples import load_cases
from mast.images import read_rgb
from mast.regions.show import SAFE
from mast.sheets import Tile, sheet

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
QUALITY, WIDEST = 88, 2000
ASSIGNED = {
    "cat": ("starry-oil", "impasto-autumn"),
    "rocket": ("starry-oil", "cubist"),
    "cameraman": ("impasto-autumn", "stained-glass"),
}
FAILED = {"raccoon": ("gold-mosaic", "stained-glass")}


def mast(*words: str | Path) -> None:
    """Runs the command line in a process of its own."""
    print("mast", *words, flush=True)
    subprocess.run([sys.executable, "-m", "mast", *map(str, words), "--quiet"], check=True)


def style(name: str) -> Path:
    return EXAMPLES / "styles" / f"{name}.png"


def contact_sheet(folder: Path) -> Image.Image:
    mast("demo", "--out", folder / "demo")
    return read_rgb(folder / "demo" / "contact-sheet.png")


def one_command(name: str, *words: str) -> Callable[[Path], Image.Image]:
    """A picture that a single command writes with -o."""

    def make(folder: Path) -> Image.Image:
        mast(*words, "-o", folder / f"{name}.png")
        return read_rgb(folder / f"{name}.png")

    return make


def assigned(given: dict[str, tuple[str, str]]) -> Callable[[Path], Image.Image]:
    """A row a photo: its regions, the paintings they were given, the picture, and the other way round."""

    def row(photo: str, styles: tuple[str, str], folder: Path) -> list[Tile]:
        source, out = EXAMPLES / "photos" / f"{photo}.jpg", folder / f"{photo}.png"
        mast("stylize", source, *map(style, styles), "-o", out, "--size", "256")
        record, regions = json.loads((folder / f"{photo}.json").read_text()), folder / f"{photo}.regions"
        first, second = (Path(region["style"]["path"]).stem for region in record["regions"])
        other = folder / f"{photo}-other.png"
        swapped = (
            f"{regions / 'object.png'}={style(second)}",
            f"{regions / 'background.png'}={style(first)}",
        )
        mast("stylize", source, "-r", swapped[0], "-r", swapped[1], "-o", other, "--size", "256")
        return [
            Tile(read_rgb(source), photo),
            Tile(read_rgb(regions / "overlay.png"), "regions"),
            Tile(read_rgb(style(first)), f"object: {first}", SAFE[0]),
            Tile(read_rgb(style(second)), f"background: {second}", SAFE[1]),
            Tile(read_rgb(out), "as assigned"),
            Tile(read_rgb(other), "the other way"),
        ]

    return lambda folder: sheet([row(photo, styles, folder) for photo, styles in given.items()], 170)


def painted(case: str, height: int, ways: dict[str, tuple[str, ...]]) -> Callable[[Path], Image.Image]:
    """One bundled case in several ways, side by side: captions, and their options."""
    described = next(one for one in load_cases(EXAMPLES) if one["name"] == case)
    regions = [
        f"{EXAMPLES / one['mask'] if one['mask'] else 'rest'}={EXAMPLES / one['style']}"
        for one in described["regions"]
    ]
    words = [word for region in regions for word in ("-r", region)]

    def make(folder: Path) -> Image.Image:
        tiles = []
        for number, (caption, options) in enumerate(ways.items()):
            out = folder / f"{case}-{number}.png"
            mast("stylize", EXAMPLES / described["content"], *words, *options, "-o", out)
            tiles.append(Tile(read_rgb(out), caption))
        return sheet([tiles], height)

    return make


PICTURES: dict[str, Callable[[Path], Image.Image]] = {
    "contact-sheet": contact_sheet,
    "assign": assigned(ASSIGNED),
    "assign-failure": assigned(FAILED),
    "attention-maps": one_command("maps", "analyze", "maps", "--examples", "cat-two", "--size", "256"),
    "ablation": one_command("ablation", "figure", "ablation", "--examples", "coffee-two"),
    "methods": one_command(
        *("methods", "compare", "--examples", "cat-two", "--size", "256"),
        *("--methods", "mast,shared,styleid,zstar,cocodiff,stylegallery,adain"),
    ),
    "levels": painted(
        *("raccoon-two", 440),
        {
            "1024 px, direct": ("--size", "1024", "--coarse", "off"),
            "coarse to fine": ("--size", "1024"),
            "coarse to fine, in windows": ("--size", "1024", "--windows", "512"),
        },
    ),
    "steps": painted(
        *("cat-two", 300),
        {
            "50 steps, plain inversion": ("--size", "512", "--steps", "50", "--inversion", "plain"),
            **{
                f"{steps} steps, refined inversion": ("--size", "512", "--steps", str(steps))
                for steps in (20, 14, 10)
            },
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; all of them")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    if unknown := set(options.names) - PICTURES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    with TemporaryDirectory() as folder:
        for name in options.names or PICTURES:
            picture = PICTURES[name](Path(folder))
            picture.thumbnail((WIDEST, WIDEST), Image.Resampling.LANCZOS)
            picture.save(options.out / f"{name}.jpg", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main()
