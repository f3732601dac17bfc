"""fit = "square", the paper's format: the centre squares of photo, masks and styles, at `size`."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import mast
from mast import InputError, Job, Region, Settings
from mast.images import centre_square, squared
from mast.pipeline import engine_of, read_job, ready_to_paint
from mast.pipeline.provenance import settings_from
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
PHOTO, STYLES = picture(96, 64, 1), (picture(64, 100, 2), picture(130, 64, 3))
LEFT, RIGHT = halves(96, 64)
JOB = Job(PHOTO, (Region(STYLES[0], LEFT), Region(STYLES[1], RIGHT)))
CUT = Job(
    PHOTO.crop((16, 0, 80, 64)),
    (
        Region(STYLES[0].crop((0, 18, 64, 82)), LEFT[:, 16:80]),
        Region(STYLES[1].crop((33, 0, 97, 64)), RIGHT[:, 16:80]),
    ),
)


@pytest.mark.parametrize(
    ("size", "box"),
    [
        ((640, 480), (80, 0, 560, 480)),
        ((480, 640), (0, 80, 480, 560)),
        ((7, 4), (1, 0, 5, 4)),
        ((5, 5), (0, 0, 5, 5)),
    ],
)
def test_the_square_is_the_largest_one_in_the_middle(size, box):
    assert centre_square(size) == box
    assert squared(picture(*size), 3).size == (3, 3)


@pytest.mark.parametrize("method", ["mast", "styleid", "reconstruct"])
def test_it_is_the_run_of_pictures_that_were_cut_before(tiny_backbone, method):
    """Photo, masks and styles are cut alike, and the result is the square: 64 px here, as the paper's 512."""
    square = run(JOB, tiny_backbone, method, fit="square")
    cut = run(CUT, tiny_backbone, method, fit="resize")
    assert square.same_bits(cut) and square.result.image.size == (64, 64)
    assert square.result.provenance["size"] == [64, 64]
    assert [r["coverage"] for r in square.result.provenance["regions"]] == [0.5, 0.5]
    assert np.asarray(square.result.inputs.photo).shape == (64, 64, 3), "what sheets and compositors see"


def test_it_has_the_size_that_is_asked_for_and_not_the_photos(tiny_backbone):
    large = run(JOB, tiny_backbone, fit="square", size=128, steps=2)
    assert large.result.image.size == (128, 128)
    odd = run(JOB, tiny_backbone, fit="square", size=100, steps=2)
    assert odd.result.image.size == (100, 100) and odd.latent.shape[-2:] == (16, 16)
    settings = mast.default_settings(tiny_backbone, fit="square", steps=2)
    auto = mast.stylize(JOB, tiny_backbone, "mast", settings)
    assert auto.image.size == (64, 64), "by itself no larger than what is taken of the photo"


def test_a_larger_picture_is_square_on_every_level(tiny_backbone):
    levels = run(JOB, tiny_backbone, fit="square", size=128, coarse=64, steps=4)
    assert levels.result.image.size == (128, 128)
    assert {step.level for step in levels.progress} == {0, 1}
    assert levels.progress[-1].x0().shape == (128, 128, 3)


def test_exact_surroundings_are_the_pixels_of_the_photos_square(tiny_backbone):
    half = Job(PHOTO, (Region(STYLES[0], LEFT),))
    for method in ("mast", "styleid"):
        done = run(half, tiny_backbone, method, fit="square", keep_unassigned="exact", steps=2)
        photo = np.asarray(PHOTO.crop((16, 0, 80, 64)))
        assert (done.pixels[:, 40:] == photo[:, 40:]).all() and (done.pixels[:, :24] != photo[:, :24]).any()


def test_transparency_is_cut_alike(tiny_backbone):
    photo = PHOTO.convert("RGBA")
    alpha = np.full((64, 96), 255, np.uint8)
    alpha[:20] = 0
    photo.putalpha(Image.fromarray(alpha))
    done = run(Job(photo, (Region(STYLES[0]),)), tiny_backbone, fit="square", steps=2)
    assert done.result.image.mode == "RGBA"
    assert (np.asarray(done.result.image)[..., 3] == alpha[:, 16:80]).all()


def test_style_masks_are_cut_with_their_painting(tiny_backbone):
    part = np.zeros((100, 64), np.float32)
    part[18:50] = 1  # the upper half of the square
    given = Job(PHOTO, (Region(STYLES[0], style_mask=part),))
    cut = Job(CUT.content, (Region(CUT.regions[0].style, style_mask=part[18:82]),))
    assert run(given, tiny_backbone, fit="square", size=128).same_bits(
        run(cut, tiny_backbone, size=128, fit="square")
    )
    ready = ready_to_paint(
        read_job(given), engine_of(mast.Mast(), tiny_backbone), Settings(fit="square", size=128)
    )
    assert torch.equal(ready.styles[0].mask_on((2, 2)), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))


def test_what_lies_outside_the_square_is_refused_by_name(tiny_backbone):
    edge = np.zeros((64, 96), np.float32)
    edge[:, :14] = 1
    told = []
    with pytest.raises(InputError, match=r"region 1 .*centre square of the photo.*--fit resize"):
        mast.stylize(
            Job(PHOTO, (Region(STYLES[0], edge), Region(STYLES[1]))),
            tiny_backbone,
            "styleid",
            Settings(fit="square", size=64, steps=2),
            told.append,
        )
    below = np.zeros((100, 64), np.float32)
    below[90:] = 1
    with pytest.raises(InputError, match=r"style mask of region 1 .*centre square"):
        run(Job(PHOTO, (Region(STYLES[0], style_mask=below),)), tiny_backbone, fit="square")
    assert told == []


def test_a_record_replays_it(tiny_backbone):
    made = run(JOB, tiny_backbone, "styleid", fit="square", clean_end=True)
    assert made.result.provenance["settings"]["fit"] == "square"
    again = mast.stylize(JOB, tiny_backbone, "styleid", settings_from(made.result.provenance))
    assert np.array_equal(np.asarray(again.image), made.pixels)
    hard = mast.recomposite(again, "hard")
    assert hard.image.size == (64, 64) and hard.provenance["settings"]["composite"] == "hard"


def test_squares_are_cut_once():
    inputs = read_job(JOB).squared(64)
    assert inputs.squared(64) is inputs
    assert replace(inputs, photo=PHOTO).squared(64) is not inputs
