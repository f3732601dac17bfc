"""A scheduler config that contradicts the weights is refused instead of giving blur."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from PIL import Image

import mast
from mast import InputError, Job, Settings

PHOTOS = ("astronaut", "cameraman", "cat", "coffee", "raccoon", "rocket")


def photo(name: str) -> Image.Image:
    path = Path(__file__).parents[2] / "examples" / "photos" / f"{name}.jpg"
    return Image.open(path).convert("RGB").resize((128, 128), Image.Resampling.LANCZOS)


@pytest.fixture(scope="module")
def latents(preview) -> dict[str, torch.Tensor]:
    image = lambda name: torch.from_numpy(np.array(photo(name))).permute(2, 0, 1)[None].float() / 127.5 - 1
    return {name: preview.encode(image(name)) for name in PHOTOS}


@pytest.fixture
def distrusted(preview):
    """The embedded model under another flag: what it is said to predict, and not taken on trust."""

    def make(prediction_type: str) -> mast.Backbone:
        scheduler = DDIMScheduler.from_config(
            {**preview.scheduler.config, "prediction_type": prediction_type}
        )
        return replace(preview, scheduler=scheduler, trusted=False)

    return make


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("stated", ["epsilon", "sample"])
def test_a_contradiction_is_refused_with_the_way_out(latents, distrusted, stated, name):
    backbone = distrusted(stated)
    with pytest.raises(InputError, match=f"prediction_type={stated}") as error:
        backbone.check_prediction_type(latents[name])
    assert "--prediction-type v_prediction" in str(error.value) and not backbone.trusted


@pytest.mark.parametrize("name", PHOTOS)
def test_the_truth_passes(latents, distrusted, name):
    backbone = distrusted("v_prediction")
    backbone.check_prediction_type(latents[name])
    assert backbone.trusted


def test_an_untrained_unet_cannot_be_judged_and_passes(tiny_backbone):
    for stated in ("epsilon", "v_prediction", "sample"):
        scheduler = DDIMScheduler.from_config({**tiny_backbone.scheduler.config, "prediction_type": stated})
        backbone = replace(tiny_backbone, scheduler=scheduler, trusted=False)
        backbone.check_prediction_type(torch.randn(1, 4, 8, 8))
        assert backbone.trusted


def test_a_run_is_stopped_before_its_inversion(distrusted):
    seen = []
    with pytest.raises(InputError, match="weights predict v_prediction"):
        mast.stylize(
            Job(photo("rocket")),
            distrusted("epsilon"),
            settings=Settings(steps=3, size=128),
            on_step=seen.append,
        )
    assert not seen


def test_a_prediction_type_given_by_hand_is_never_taken_on_trust():
    assert not mast.load("preview", device="cpu", prediction_type="epsilon").trusted
