"""Measure the trace of the 8-pixel grid: how much larger steps are at the borders of cells than inside them.

    python -m training.borders MODEL PICTURE... [--size 256] [--styles PICTURE...]

MODEL is a model folder, or preview. Prints the ratio for every photo, its reconstruction by the autoencoder,
and its picture after MAST with one of the styles (the bundled ones, unless given), over the whole picture and
in its flattest quarter, where a grid is seen. 1 is no grid at all.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mast import Backbone, Job, Mast, Region, Settings, load, stylize
from mast.examples import examples_folder
from mast.images import read_rgb, to_tensor, work_size
from training.run import sizes

CELL = 8
WINDOW = (
    32  # pixels: textures outweigh flat areas in the mean of a picture, so these are looked at by themselves
)
FAINT = 0.002  # a step of a quarter of a grey level, which nobody sees


def excess_steps(picture: Tensor) -> Tensor:
    """How much differences of neighbouring pixels in a row depart from the mean of the differences beside
    them, (b, c, h, w - 2) from the second pixel on, of pictures (b, c, h, w).
    """
    slope = picture[..., 1:] - picture[..., :-1]
    return F.pad((slope[..., 1:-1] - 0.5 * (slope[..., :-2] + slope[..., 2:])).abs(), (1, 0))


def border_steps(picture: Tensor) -> Tensor:
    """Mean excess of steps by phase in the cell, (8,); phase 7 is the border. Pictures (b, c, h, w)."""
    both = []
    for x in (picture, picture.transpose(2, 3)):
        excess = excess_steps(x)
        cells = excess.shape[-1] // CELL
        both.append(excess[..., : cells * CELL].unflatten(-1, (cells, CELL))[..., 1:, :].mean((0, 1, 2, 3)))
    return (both[0] + both[1]) / 2


def border_ratio(picture: Tensor) -> float:
    """Steps at the borders of cells over those well inside them; pictures (b, c, h, w)."""
    steps = border_steps(picture)
    return float(steps[7] / steps[2:5].mean().clamp_min(1e-9))


def local_steps(picture: Tensor) -> Tensor:
    """As `border_steps`, in every window of 32 px: (b, windows along rows and columns, 8)."""
    both = []
    for x in (picture, picture.transpose(2, 3)):
        excess = F.pad(excess_steps(x), (0, 2)).mean(1)
        excess = excess[:, : excess.shape[1] // WINDOW * WINDOW, : excess.shape[2] // WINDOW * WINDOW]
        windows = excess.unflatten(2, (-1, WINDOW // CELL, CELL)).unflatten(1, (-1, WINDOW))
        both.append(windows.mean((2, 4)).flatten(1, 2))
    return torch.cat(both, 1)


def unevenness(picture: Tensor) -> Tensor:
    """How far steps at the eight phases are from their mean, relative to it: mean square, (), over quarters
    of the windows from flat to busy, within which chance evens out. Pictures (b, c, h, w).
    """
    steps = local_steps(picture).flatten(0, 1)
    mean = steps.mean(1, keepdim=True).detach()  # what is too high shall fall and not be drowned
    apart = (steps - mean) / (mean + FAINT)
    return torch.stack([q.mean(0) for q in apart[mean[:, 0].argsort()].tensor_split(4)]).pow(2).mean()


def flat_ratio(picture: Tensor) -> float:
    """Steps at borders over those inside in the flattest quarter of the windows; pictures (b, c, h, w)."""
    steps = local_steps(picture).flatten(0, 1)
    inside = steps[:, 1:6].mean(1)
    flat = inside.argsort()[: max(1, len(inside) // 4)]
    return float(((steps[flat, 7] + FAINT) / (inside[flat] + FAINT)).mean())


def repetition(picture: Tensor) -> Tensor:
    """Mean size () of the 8x8 pattern that cells within windows of 64 px have in common; (b, c, h, w)."""
    b, c, h, w = picture.shape
    windows = picture[..., : h // 64 * 64, : w // 64 * 64].reshape(b, c, h // 64, 8, 8, w // 64, 8, 8)
    tiles = windows.mean((3, 6))
    return (tiles - tiles.mean((3, 5), keepdim=True)).abs().mean()


@torch.inference_mode()
def measure(backbone: Backbone, photo: Path, style: Path, size: int) -> dict[str, float]:
    """Border ratios, everywhere and in flat areas, of one photo at work size, of its reconstruction, and of
    its stylized picture.
    """
    picture = read_rgb(photo)
    image = to_tensor(picture, *work_size(*picture.size, size, backbone.stride, "resize"))
    pictures = {"photo": image, "reconstruction": backbone.decode(backbone.encode(image))}
    fitted = picture.resize((image.shape[3], image.shape[2]))  # so that cells stay where the decoder put them
    settings = Settings(steps=12, inversion="refined", size=size, cache=False)
    method = Mast(**backbone.defaults.get("mast", {}))
    made = stylize(Job(fitted, (Region(style),)), backbone, method, settings).image
    pictures["stylized"] = to_tensor(made, made.size, made.size)
    ratios = {name: border_ratio(pixels) for name, pixels in pictures.items()}
    return ratios | {f"{name} where flat": flat_ratio(pixels) for name, pixels in pictures.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.borders", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("model", metavar="MODEL", help="a model folder, or preview")
    parser.add_argument("photos", type=Path, metavar="PICTURE", nargs="+")
    parser.add_argument("--styles", type=Path, nargs="+", help="taken in turn; the bundled ones unless given")
    parser.add_argument("--size", type=sizes, default=(256,), help="of the longer side, in pixels")
    args = parser.parse_args(arguments)
    styles = args.styles or sorted((examples_folder() / "styles").glob("*.png"))
    try:
        backbone = load(args.model)
        found = []
        for number, photo in enumerate(args.photos):
            found.append(measure(backbone, photo, styles[number % len(styles)], args.size[0]))
            print(f"{photo.stem}: " + ", ".join(f"{k} {v:.3f}" for k, v in found[-1].items()), flush=True)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    means = {name: sum(row[name] for row in found) / len(found) for name in found[0]}
    print("mean: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items()))


if __name__ == "__main__":
    main()
