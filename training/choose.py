"""Choose a model's own size, the share of steps that larger levels repeat, and tau: by eye and by figures.

    python -m training.choose --model FOLDER --sheet FILE.png [--size 512] [--cases 8] [--steps 12]
        [--own 192,256,320] [--refine 0.25,0.4,0.6] [--tau model,1.5,2] [--images DIR]

The same photos, paintings and masks are painted in several ways. One thing is changed at a time; the middle
of the sizes and fractions, and the first tau ("model": as calibrated) are what the others differ from. For
every way: the cosine of a region's Inception embedding with its style's (higher is more style), R-KID (lower
is more style), LPIPS to the photo (lower keeps more of it), the steps at cell borders (1 is no grid), seconds
a picture. The pictures are the bundled examples, with two regions and more; or, with --images, held-out ones
as judge.py has them, half with one region. Inversions are shared between the ways, so the first way to need
one pays for it.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mast import Backbone, default_method, default_settings, load, read_job, stylize
from mast.examples import case_job, examples_folder, load_cases
from mast.features.cache import Cache
from mast.images import save_png
from mast.metrics import load_inception, load_lpips
from training.judge import Case, Judges, draw, figures, make_cases, table


@dataclass(frozen=True)
class Way:
    """How to paint: at which size to begin, how much to repeat above it, and a tau, None for the model's."""

    own: int
    refine: float
    tau: float | None

    @property
    def label(self) -> str:
        return f"{self.own} px, {self.refine:g}, tau {'model' if self.tau is None else f'{self.tau:g}'}"


def ways(sizes: list[int], fractions: list[float], taus: list[float | None]) -> list[Way]:
    """The middle of everything, and what differs from it in one thing."""
    usual = Way(sizes[len(sizes) // 2], fractions[len(fractions) // 2], taus[0])
    others = [Way(size, usual.refine, usual.tau) for size in sizes]
    others += [Way(usual.own, fraction, usual.tau) for fraction in fractions]
    others += [Way(usual.own, usual.refine, tau) for tau in taus]
    return list(dict.fromkeys([usual, *others]))


def bundled_cases(count: int) -> list[Case]:
    """So many of the bundled examples, those with two regions first."""
    folder = examples_folder()
    listed = sorted(load_cases(folder), key=lambda case: len(case["regions"]))[:count]
    seen = [read_job(case_job(case, folder)) for case in listed]
    return [Case(one.photo, tuple(style.picture for style in one.styles), one.masks) for one in seen]


def paint(
    backbone: Backbone, case: Case, way: Way, size: int, steps: int | None, cache: Cache
) -> Image.Image:
    levels = {"size": size, "coarse": way.own, "refine": way.refine, "windows": "off"}
    settings = default_settings(backbone, steps=steps, **levels)
    return stylize(case.job, backbone, default_method(backbone, tau=way.tau), settings, cache=cache).image


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.choose", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--model", default="preview", help="a model folder, or preview")
    parser.add_argument("--sheet", type=Path, required=True, help="where to draw all pictures, a PNG")
    parser.add_argument("--size", type=int, default=512, help="of the finished pictures, longer side")
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--steps", type=int, help="the model's own unless given")
    parser.add_argument("--own", type=_list(int), default=[192, 256, 320], help="sizes to begin at")
    parser.add_argument("--refine", type=_list(float), default=[0.25, 0.4, 0.6])
    parser.add_argument("--tau", type=_list(_tau), default=[None, 1.5, 2.0], help="factors, or model")
    parser.add_argument("--images", type=Path, help="the folder with photos.tar, paintings.tar")
    parser.add_argument("--inception", type=Path, help="FID's Inception; found or fetched unless given")
    parser.add_argument("--lpips", type=Path, help="alexnet.ckpt; found or fetched unless given")
    parser.add_argument("--height", type=int, default=256, help="of the sheet's pictures")
    args = parser.parse_args(arguments)
    try:
        judges = Judges(load_inception("fid", args.inception), load_lpips("alex", args.lpips))
        if args.images is None:
            cases = bundled_cases(args.cases)
        else:
            halves = (args.cases - args.cases // 2, args.cases // 2)
            cases = [
                c for n, count in enumerate(halves, 1) for c in make_cases(args.images, n, count, args.size)
            ]
        backbone = load(args.model)
        pictures: dict[str, list[Image.Image]] = {}
        measures: dict[str, dict[str, float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            cache = Cache(Path(folder))
            for way in ways(args.own, args.refine, args.tau):
                began = time.monotonic()
                made = pictures[way.label] = [
                    paint(backbone, case, way, args.size, args.steps, cache) for case in cases
                ]
                seconds = time.monotonic() - began
                measures[way.label] = {**figures(made, cases, judges), "seconds": seconds / len(cases)}
                print(f"{way.label}: {seconds:.0f} s", flush=True)
                save_png(draw(cases[: len(made)], pictures, args.height), args.sheet)  # as far as it is
        print(f"\n{len(cases)} pictures, {args.size} px, {args.model}\n")
        print(table(measures))
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _tau(text: str) -> float | None:
    return None if text == "model" else float(text)


def _list(kind):  # type: ignore[no-untyped-def]
    """An argument of several values with commas between them."""
    return lambda text: [kind(one) for one in text.split(",")]


if __name__ == "__main__":
    main()
