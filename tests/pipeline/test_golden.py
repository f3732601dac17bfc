"""Golden pictures of the embedded model, one per kind of method: what people see does not change unnoticed.

    python -m tests.pipeline.test_golden      makes them anew, after a change that is meant to be seen

Bits differ between machines (sums are made in another order), so pictures are compared with a tolerance: on
average a level of 255, and half a level in the mean of any colour, which a uniform shift of one level breaks.
"""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mast
from mast.examples import examples_folder

FOLDER = Path(__file__).parent / "golden"
METHODS = ("mast", "shared", "styleid", "zstar", "reconstruct")
MEAN_DIFFERENCE, COLOUR_SHIFT = 1.0, 0.5


def painted(method: str) -> np.ndarray:
    examples = examples_folder()
    regions = (
        mast.Region(examples / "styles/starry-oil.png", examples / "masks/cat-cat.png"),
        mast.Region(examples / "styles/stained-glass.png"),
    )
    photo = Image.open(examples / "photos/cat.jpg").resize((128, 85), Image.Resampling.LANCZOS)
    job = mast.Job(photo, () if method == "reconstruct" else regions)
    backbone = mast.load("preview")
    settings = mast.default_settings(backbone, size=128, steps=4, cache=False, keep_unassigned="reconstruct")
    return np.asarray(mast.stylize(job, backbone, method, settings).image)


def faults(picture: np.ndarray, golden: np.ndarray) -> list[str]:
    """What is wrong with a picture, (h, w, 3) uint8."""
    difference = picture.astype(np.float64) - golden
    found = []
    if (mean := np.abs(difference).mean()) > MEAN_DIFFERENCE:
        found.append(f"differs by {mean:.2f} levels on average")
    if (shift := np.abs(difference.mean((0, 1))).max()) > COLOUR_SHIFT:
        found.append(f"a colour is shifted by {shift:.2f} levels")
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_picture_is_the_one_it_was(method: str) -> None:
    golden = np.asarray(Image.open(FOLDER / f"{method}.png"))
    assert faults(painted(method), golden) == []


def test_golden_pictures_are_of_different_methods_and_a_shift_of_one_level_is_seen() -> None:
    goldens = [np.asarray(Image.open(FOLDER / f"{method}.png")) for method in METHODS]
    for i, one in enumerate(goldens):
        shifted = np.clip(one.astype(int) + 1, 0, 255)
        assert faults(shifted.astype(np.uint8), one)
        assert all(faults(other, one) for j, other in enumerate(goldens) if j != i)


if __name__ == "__main__":
    for name in METHODS:
        Image.fromarray(painted(name)).save(FOLDER / f"{name}.png")
