"""What a run tells while it works, and how it can be changed or ended."""

import numpy as np
import pytest
import torch

import mast
from mast import Cancelled, InputError, Job, Region, Settings
from tests.tiny import picture, run


def check(progress, steps):
    """Both stages count up to the total they announce, and no further."""
    for stage in ("invert", "denoise"):
        told = [(step.done, step.total) for step in progress if step.stage == stage]
        assert told == [(i + 1, len(told)) for i in range(len(told))], stage
    assert sum(step.stage == "denoise" for step in progress) == steps - 1
    assert [step.stage for step in progress] == sorted((step.stage for step in progress), reverse=True)


@pytest.mark.parametrize("inversion", ["plain", "refined"])
@pytest.mark.parametrize("features", ["memory", "replay"])
def test_the_totals_are_the_passes_made(tiny_backbone, job, inversion, features):
    for _ in ("cold", "warm"):
        check(run(job, tiny_backbone, inversion=inversion, features=features).progress, 3)


@pytest.mark.parametrize("features", ["memory", "replay"])
def test_a_picture_used_twice_is_counted_once(tiny_backbone, pictures, features):
    style = pictures["style_a"]
    twice = Job(pictures["photo"], (Region(style, pictures["left"]), Region(style, pictures["right"])))
    check(run(twice, tiny_backbone, features=features).progress, 3)


@pytest.mark.parametrize("features", ["memory", "replay"])
def test_a_photo_that_is_its_own_style_is_counted_right(tiny_backbone, pictures, features):
    own = Job(pictures["photo"], (Region(pictures["photo"], pictures["left"]),))
    check(run(own, tiny_backbone, features=features).progress, 3)


def test_a_plain_reconstruction_needs_no_pass_at_the_last_timestep(tiny_backbone, pictures):
    progress = run(Job(pictures["photo"]), tiny_backbone).progress
    check(progress, 3)
    assert len(progress) == 4


def test_denoising_tells_its_timestep_latent_and_a_picture_of_the_estimate(tiny_backbone, job, warm_cache):
    told = [step for step in run(job, tiny_backbone).progress if step.stage == "denoise"]
    assert [step.t for step in told] == list(tiny_backbone.schedule(3).timesteps[:0:-1])
    for step in told:
        assert step.latent.shape == (1, 4, 8, 8)
        preview = step.x0()
        assert preview.shape == (64, 64, 3) and preview.dtype == np.uint8


def test_cancelling_ends_the_run_and_leaves_the_unet_alone(tiny_backbone, job):
    for stage in ("invert", "denoise"):
        processors, told = dict(tiny_backbone.unet.attn_processors), []

        def cancel(progress, stage=stage, told=told) -> None:
            told.append(progress)
            if progress.stage == stage:
                raise Cancelled

        with pytest.raises(Cancelled):
            mast.stylize(job, tiny_backbone, settings=Settings(steps=3, size=64, cache=False), on_step=cancel)
        assert told[-1].stage == stage and told[-1].done == 1
        assert all(tiny_backbone.unet.attn_processors[name] is own for name, own in processors.items())


def test_the_callback_of_diffusers_sees_and_changes_the_latents(tiny_backbone, job, warm_cache):
    calls = []

    def callback(backbone, step, timestep, values):
        calls.append((backbone is tiny_backbone, step, timestep, sorted(values)))
        return {"latents": torch.zeros_like(values["latents"])}

    changed = run(job, tiny_backbone, callback_on_step_end=callback)
    timesteps = tiny_backbone.schedule(3).timesteps
    assert calls == [(True, 0, timesteps[2], ["latents"]), (True, 1, timesteps[1], ["latents"])]
    blank = tiny_backbone.decode(torch.zeros(1, 4, 8, 8))[0].permute(1, 2, 0)
    expected = ((blank.clamp(-1, 1) + 1) * 127.5).round().byte().numpy()
    assert np.array_equal(changed.pixels, expected)


@pytest.mark.parametrize("answer", [None, {}, {"latents": None}])
def test_a_callback_that_only_looks_changes_nothing(tiny_backbone, job, answer, warm_cache):
    looked = run(job, tiny_backbone, callback_on_step_end=lambda *_: answer)
    assert looked.same_bits(run(job, tiny_backbone))


def test_seconds_are_told_by_stage(tiny_backbone, job, warm_cache):
    seconds = run(job, tiny_backbone).result.seconds
    assert list(seconds) == ["load", "prepare", "encode", "invert", "denoise", "decode"]
    assert all(value >= 0 for value in seconds.values())


def test_a_name_is_enough_for_backbone_and_method(tiny_sd_folder):
    result = mast.stylize(
        Job(picture(64, 64), [Region(picture(64, 64, 1))]),
        tiny_sd_folder,
        "shared",
        Settings(steps=2, size=64),
    )
    assert result.provenance["method"]["name"] == "shared"
    assert result.provenance["model"]["name"] == str(tiny_sd_folder)


def test_bars_follow_every_stage_and_the_callback_is_told_as_well(tiny_backbone, capsys):
    told = []
    result = mast.stylize(
        Job(picture(64, 64, 1), Region(picture(64, 64, 2))),
        tiny_backbone,
        settings=Settings(steps=3, size=64, cache=False),
        on_step=told.append,
        progress=True,
    )
    shown = capsys.readouterr().out
    assert "inverting" in shown and "repainting" in shown and "2/2" in shown
    assert {step.stage for step in told} == {"invert", "denoise"} and result.image.size == (64, 64)


def test_a_job_takes_a_list_or_one_region_and_refuses_the_rest_in_words():
    region = Region("style.png")
    assert Job("photo.png", region).regions == Job("photo.png", [region]).regions == (region,)
    for wrong in ("style.png", ["style.png"], {"style": "style.png"}, None):
        with pytest.raises(InputError, match=r"mast\.Region\(style, mask\)"):
            Job("photo.png", wrong)
