"""DDIM inversion: the trajectory's shape and convention, and a way back that refinement makes exact."""

import numpy as np
import pytest
import torch
from PIL import Image

from mast.backbone.backbone import Backbone
from mast.core import ddim
from mast.features.inversion import Trajectory, invert, passes
from tests.tiny import SCHEDULER


def clean_latent(h: int = 8, w: int = 16) -> torch.Tensor:
    return torch.randn(1, 4, h, w, generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def back(backbone: Backbone, trajectory: Trajectory, schedule: ddim.Schedule) -> torch.Tensor:
    z = trajectory.noise
    for i, to in schedule.moves:
        prediction = backbone.predict(z, schedule.timesteps[i])
        z, _ = ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)
    return z


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_a_trajectory_holds_every_latent_and_every_point_the_unet_saw(tiny_backbone, refined, features):
    schedule, seen = tiny_backbone.schedule(4), []
    trajectory = invert(tiny_backbone, clean_latent(), schedule, refined, seen.append, features)
    assert trajectory.latents.shape == trajectory.points.shape == (4, 4, 8, 16)
    assert torch.equal(trajectory.latents[:1], clean_latent()), "the clean latent is z at the first t"
    assert torch.equal(trajectory.noise, trajectory.latents[-1:])
    assert trajectory.below is None and torch.equal(trajectory.clean, clean_latent())
    assert len(seen) == passes(schedule, refined, features) and seen == list(range(len(seen)))


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_from_a_clean_end_the_first_move_leads_to_the_first_timestep(tiny_backbone, refined, features):
    schedule, seen = tiny_backbone.schedule(4, clean_end=True), []
    trajectory = invert(tiny_backbone, clean_latent(), schedule, refined, seen.append, features)
    assert trajectory.latents.shape == trajectory.points.shape == (4, 4, 8, 16)
    assert torch.equal(trajectory.clean, clean_latent())
    assert not torch.equal(trajectory.latents[:1], clean_latent())
    assert len(seen) == passes(schedule, refined, features) and seen == [0, *range(len(seen) - 1)]
    with torch.inference_mode():  # with the noise predicted at (z_clean, 1); where it arrives, if refined
        point = trajectory.points[:1] if refined else clean_latent()
        noise = tiny_backbone.predict(point, schedule.timesteps[0])
        moved = ddim.carry(clean_latent(), noise, schedule.clean_end, schedule.alphas[0])
    torch.testing.assert_close(trajectory.latents[:1], moved, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("to_one", [False, True])
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("kind", ddim.PREDICTION_TYPES)
def test_inversion_and_back_with_one_and_the_same_noise_is_the_identity(kind, end, to_one):
    """Of the whole path, for a U-Net that sees the same noise everywhere, whatever it predicts."""
    config = {**SCHEDULER, "prediction_type": kind, "set_alpha_to_one": to_one}
    schedule = ddim.make_schedule(config, 6, clean_end=end)
    noise = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    class OneNoise:
        def predict(self, z: torch.Tensor, t: int) -> torch.Tensor:
            alpha = schedule.alphas[schedule.timesteps.index(t)]
            signal, share = alpha**0.5, (1 - alpha) ** 0.5
            x0 = (z - share * noise) / signal
            return {"epsilon": noise, "v_prediction": signal * noise - share * x0, "sample": x0}[kind]

    clean = clean_latent().double()
    for refined in (False, True):
        trajectory = invert(OneNoise(), clean, schedule, refined)
        torch.testing.assert_close(back(OneNoise(), trajectory, schedule), clean, atol=1e-8, rtol=1e-8)


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


@pytest.mark.parametrize("end", [False, True])
def test_refinement_brings_a_photo_back_far_better_than_plain_inversion(preview, example_photo, end):
    photo = Image.open(example_photo).convert("RGB").resize((128, 128), Image.Resampling.LANCZOS)
    image = torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float() / 127.5 - 1
    clean, schedule = preview.encode(image), preview.schedule(10, end)
    reference = preview.decode(clean).clamp(-1, 1)
    decibels = {}
    for refined in (False, True):
        returned = back(preview, invert(preview, clean, schedule, refined), schedule)
        error = (preview.decode(returned).clamp(-1, 1) - reference).pow(2).mean()
        decibels[refined] = float(10 * torch.log10(4 / error))
    assert decibels[True] > decibels[False] + 10, decibels
    assert decibels[True] > 30, decibels
