"""DDIM: diffusers' own numbers, and a way back that is the way there."""

import math

import pytest
import torch
from diffusers import DDIMScheduler
from hypothesis import given
from hypothesis import strategies as st

from mast.core.ddim import PREDICTION_TYPES, carry, cumulative_alphas, make_schedule, move, split

SD = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
}
kinds = st.sampled_from(PREDICTION_TYPES)
levels = st.floats(0.01, 0.999)


def noise(seed: int) -> torch.Tensor:
    return torch.randn(1, 4, 3, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", PREDICTION_TYPES)
def test_a_denoising_step_is_the_one_of_diffusers(kind: str):
    scheduler = DDIMScheduler(**SD, prediction_type=kind)
    scheduler.set_timesteps(50)
    schedule = make_schedule(scheduler.config, 50)
    for i in range(1, 50):
        z, prediction = noise(i), noise(i + 100)
        theirs = scheduler.step(prediction, schedule.timesteps[i], z, eta=0.0)
        ours, x0 = move(z, prediction, schedule.alphas[i], schedule.alphas[i - 1], kind)
        torch.testing.assert_close(ours, theirs.prev_sample, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(x0, theirs.pred_original_sample, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("to_one", [False, True])
@pytest.mark.parametrize("kind", PREDICTION_TYPES)
def test_the_last_of_50_moves_ends_where_diffusers_ends(kind: str, to_one: bool):
    scheduler = DDIMScheduler(**{**SD, "set_alpha_to_one": to_one}, prediction_type=kind)
    scheduler.set_timesteps(50)
    schedule = make_schedule(scheduler.config, 50, clean_end=True)
    assert [schedule.timesteps[i] for i, _ in schedule.moves] == scheduler.timesteps.tolist()
    assert schedule.clean_end == pytest.approx(float(scheduler.final_alpha_cumprod), abs=1e-7)
    z, prediction, (i, to) = noise(1), noise(2), schedule.moves[-1]
    theirs = scheduler.step(prediction, schedule.timesteps[0], z, eta=0.0)
    ours, _ = move(z, prediction, schedule.alphas[i], to, kind)
    torch.testing.assert_close(ours, theirs.prev_sample, atol=1e-6, rtol=1e-5)


def test_without_a_clean_end_50_timesteps_make_49_moves():
    schedule = make_schedule(SD, 50)
    assert schedule.clean_end is None and [i for i, _ in schedule.moves] == list(range(49, 0, -1))
    assert schedule.moves[-1] == (1, schedule.alphas[0]) and schedule.whole_moves == 49
    part = make_schedule(SD, 50, clean_end=True).clean_part(8)
    assert part.whole_moves == 50 and len(part.moves) == 8 and part.moves[-1][1] == part.clean_end


def test_stable_diffusion_in_50_steps_visits_1_21_up_to_981():
    assert make_schedule(SD, 50).timesteps == tuple(range(1, 982, 20))


@pytest.mark.parametrize("zero_snr", [False, True])
@pytest.mark.parametrize("kind", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_cumulative_alphas_are_those_of_diffusers(kind: str, zero_snr: bool):
    config = {**SD, "beta_schedule": kind, "rescale_betas_zero_snr": zero_snr}
    theirs = DDIMScheduler(**config).alphas_cumprod
    torch.testing.assert_close(cumulative_alphas(config), theirs, atol=1e-7, rtol=1e-6)


def test_trained_betas_are_honoured():
    betas = torch.linspace(0.001, 0.1, 40).tolist()
    config = {"trained_betas": betas, "num_train_timesteps": 40}
    torch.testing.assert_close(cumulative_alphas(config), DDIMScheduler(**config).alphas_cumprod)


def timesteps_of_diffusers(config: dict, steps: int) -> list[int]:
    scheduler = DDIMScheduler(**config)
    scheduler.set_timesteps(steps)
    return scheduler.timesteps.tolist()[::-1]


@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_timesteps_are_those_of_diffusers(spacing: str):
    config = {**SD, "timestep_spacing": spacing, "steps_offset": 0}
    for steps in (1, 2, 4, 8, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 250, 500, 1000):
        assert list(make_schedule(config, steps).timesteps) == timesteps_of_diffusers(config, steps), steps


@given(steps=st.integers(1, 1000), spacing=st.sampled_from(["leading", "trailing", "linspace"]))
def test_timesteps_of_any_number_of_steps_differ_at_most_in_how_a_half_is_rounded(steps: int, spacing: str):
    config = {**SD, "timestep_spacing": spacing, "steps_offset": 0}
    theirs = timesteps_of_diffusers(config, steps)[-steps:]  # its trailing spacing may slip in one too many
    ours = make_schedule(config, steps).timesteps
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) <= (0 if spacing == "leading" else 1)


@given(steps=st.integers(2, 1000), spacing=st.sampled_from(["leading", "trailing", "linspace"]))
def test_timesteps_ascend_inside_the_training_range(steps: int, spacing: str):
    schedule = make_schedule({**SD, "timestep_spacing": spacing}, steps)
    assert len(schedule) == steps
    assert list(schedule.timesteps) == sorted(schedule.timesteps)
    assert len(set(schedule.timesteps)) >= steps - 1  # a thousand with an offset meet at the end
    assert schedule.timesteps[0] >= 0 and schedule.timesteps[-1] <= 999
    assert all(0 < alpha < 1 for alpha in schedule.alphas)


@given(seed=st.integers(0, 10**6), steps=st.integers(2, 50), end=st.booleans(), to_one=st.booleans())
def test_inversion_then_denoising_with_a_constant_prediction_is_the_identity(seed, steps, end, to_one):
    schedule = make_schedule({**SD, "set_alpha_to_one": to_one}, steps, clean_end=end)
    clean, prediction = noise(seed), noise(seed + 1)
    z = clean
    for i, to in reversed(schedule.moves):
        z, _ = move(z, prediction, to, schedule.alphas[i], "epsilon")
    for i, to in schedule.moves:
        z, _ = move(z, prediction, schedule.alphas[i], to, "epsilon")
    torch.testing.assert_close(z, clean, atol=1e-10, rtol=1e-10)


@given(kind=kinds, alpha=levels, to=levels, seed=st.integers(0, 10**6))
def test_a_perfect_prediction_of_any_type_leads_to_the_exact_mixture(kind, alpha, to, seed):
    x0, e = noise(seed), noise(seed + 1)
    mixture = lambda level: math.sqrt(level) * x0 + math.sqrt(1 - level) * e
    prediction = {
        "epsilon": e,
        "v_prediction": math.sqrt(alpha) * e - math.sqrt(1 - alpha) * x0,
        "sample": x0,
    }[kind]
    moved, found = move(mixture(alpha), prediction, alpha, to, kind)
    torch.testing.assert_close(found, x0, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(moved, mixture(to), atol=1e-9, rtol=1e-9)


@given(kind=kinds, alpha=levels, to=levels, seed=st.integers(0, 10**6))
def test_split_carry_and_move_agree_for_any_prediction(kind, alpha, to, seed):
    z, prediction = noise(seed), noise(seed + 1)
    x0, e = split(z, prediction, alpha, kind)
    torch.testing.assert_close(math.sqrt(alpha) * x0 + math.sqrt(1 - alpha) * e, z, atol=1e-9, rtol=1e-9)
    moved, same = move(z, prediction, alpha, to, kind)
    torch.testing.assert_close(carry(z, e, alpha, to), moved, atol=1e-9, rtol=1e-9)
    assert torch.equal(same, x0)


def test_zero_terminal_snr_divides_by_nothing_that_is_zero():
    config = {
        **SD,
        "rescale_betas_zero_snr": True,
        "timestep_spacing": "trailing",
        "prediction_type": "v_prediction",
    }
    schedule = make_schedule(config, 10)
    moved, x0 = move(noise(0), noise(1), schedule.alphas[-1], schedule.alphas[-2], "v_prediction")
    assert schedule.timesteps[-1] == 999 and moved.isfinite().all() and x0.isfinite().all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"beta_schedule": "sigmoid"}, "sigmoid"),
        ({"timestep_spacing": "random"}, "random"),
        ({"prediction_type": "score"}, "score"),
    ],
)
def test_what_a_config_says_and_nobody_knows_is_refused_by_name(change: dict, named: str):
    with pytest.raises(ValueError, match=named):
        make_schedule({**SD, **change}, 10)


@pytest.mark.parametrize("steps", [0, 1001])
def test_more_steps_than_training_timesteps_are_refused(steps: int):
    with pytest.raises(ValueError, match=str(steps)):
        make_schedule(SD, steps)
