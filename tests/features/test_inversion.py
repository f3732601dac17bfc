"""DDIM inversion: the trajectory's shape and convention, and a way back that refinement makes exact."""

import numpy as np
import pytest
import torch
from PIL import Image

from mast.backbone.backbone import Backbone
from mast.core import ddim
from mast.features.inversion import Trajectory, invert, passes


def clean_latent(h: int = 8, w: int = 16) -> torch.Tensor:
    return torch.randn(1, 4, h, w, generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def back(backbone: Backbone, trajectory: Trajectory, schedule: ddim.Schedule) -> torch.Tensor:
    z = trajectory.noise
    for i in range(len(schedule) - 1, 0, -1):
        prediction = backbone.predict(z, schedule.timesteps[i])
        z, _ = ddim.move(z, prediction, schedule.alphas[i], schedule.alphas[i - 1], schedule.prediction_type)
    return z


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_a_trajectory_holds_every_latent_and_every_point_the_unet_saw(tiny_backbone, refined, features):
    schedule, seen = tiny_backbone.schedule(4), []
    trajectory = invert(tiny_backbone, clean_latent(), schedule, refined, seen.append, features)
    assert trajectory.latents.shape == trajectory.points.shape == (4, 4, 8, 16)
    assert torch.equal(trajectory.latents[:1], clean_latent()), "the clean latent is z at the first t"
    assert torch.equal(trajectory.noise, trajectory.latents[-1:])
    assert len(seen) == passes(4, refined, features) and seen == list(range(len(seen)))


def test_plain_inversion_looks_at_the_latents_themselves(tiny_backbone):
    trajectory = invert(tiny_backbone, clean_latent(), tiny_backbone.schedule(4))
    assert torch.equal(trajectory.points, trajectory.latents)


def test_plain_inversion_moves_with_the_noise_predicted_where_it_stands(tiny_backbone):
    schedule = tiny_backbone.schedule(3)
    trajectory = invert(tiny_backbone, clean_latent(), schedule)
    z = clean_latent()
    with torch.inference_mode():
        for i in (0, 1):
            prediction = tiny_backbone.predict(z, schedule.timesteps[i])
            z, _ = ddim.move(z, prediction, schedule.alphas[i], schedule.alphas[i + 1], "epsilon")
            torch.testing.assert_close(trajectory.latents[i + 1 : i + 2], z, atol=1e-5, rtol=1e-5)


def test_refined_inversion_moves_with_the_noise_predicted_where_it_arrives(tiny_backbone):
    schedule = tiny_backbone.schedule(3)
    trajectory = invert(tiny_backbone, clean_latent(), schedule, refined=True)
    with torch.inference_mode():
        for i in (1, 2):
            noise = tiny_backbone.predict(trajectory.points[i : i + 1], schedule.timesteps[i])
            moved = ddim.carry(
                trajectory.latents[i - 1 : i], noise, schedule.alphas[i - 1], schedule.alphas[i]
            )
            torch.testing.assert_close(trajectory.latents[i : i + 1], moved, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("refined", [False, True])
def test_the_same_picture_has_the_same_trajectory_bit_by_bit(tiny_backbone, refined):
    schedule = tiny_backbone.schedule(3)
    first, second = (invert(tiny_backbone, clean_latent(), schedule, refined) for _ in range(2))
    assert torch.equal(first.latents, second.latents) and torch.equal(first.points, second.points)


def test_raising_ends_the_inversion(tiny_backbone):
    def stop(step: int) -> None:
        if step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        invert(tiny_backbone, clean_latent(), tiny_backbone.schedule(4), on_pass=stop)


def test_refinement_brings_a_photo_back_far_better_than_plain_inversion(preview, example_photo):
    photo = Image.open(example_photo).convert("RGB").resize((128, 128), Image.Resampling.LANCZOS)
    image = torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float() / 127.5 - 1
    clean, schedule = preview.encode(image), preview.schedule(10)
    reference = preview.decode(clean).clamp(-1, 1)
    decibels = {}
    for refined in (False, True):
        returned = back(preview, invert(preview, clean, schedule, refined), schedule)
        error = (preview.decode(returned).clamp(-1, 1) - reference).pow(2).mean()
        decibels[refined] = float(10 * torch.log10(4 / error))
    assert decibels[True] > decibels[False] + 10, decibels
    assert decibels[True] > 30, decibels
