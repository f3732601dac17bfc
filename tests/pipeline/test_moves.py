"""How many moves a run makes: all of its timesteps' under the paper's preset, one less otherwise."""

import json

import numpy as np
import pytest
import torch

import mast
from mast import Settings
from mast.core import ddim
from mast.job import PRESETS, InputError
from mast.methods import METHODS
from mast.pipeline.provenance import settings_from
from tests.methods.scenes import scene_of
from tests.tiny import run

MOVING = ("mast", "shared", "styleid", "zstar", "reconstruct")


def denoised(result) -> list[int]:
    return [step.t for step in result.progress if step.stage == "denoise"]


def test_the_papers_preset_makes_50_moves_and_the_fast_one_is_as_it_was(tiny_backbone):
    assert PRESETS["paper"]["clean_end"] and not PRESETS["fast"].get("clean_end", False)
    schedule = tiny_backbone.schedule(50, mast.default_settings(tiny_backbone, "paper").clean_end)
    assert [schedule.timesteps[i] for i, _ in schedule.moves] == list(range(981, 0, -20))
    assert len(tiny_backbone.schedule(12, mast.default_settings(tiny_backbone, "fast").clean_end).moves) == 11


@pytest.mark.parametrize("method", MOVING)
def test_every_timestep_makes_a_move_the_last_one_from_the_first_timestep(tiny_backbone, job, method):
    whole = run(job, tiny_backbone, method, cache=False, clean_end=True)
    runs = len(job.regions) if METHODS[method].family == "global-single" else 1
    assert denoised(whole) == [667, 334, 1] * runs
    assert whole.progress[-1].done == whole.progress[-1].total == 3 * runs
    before = run(job, tiny_backbone, method, cache=False)
    assert denoised(before) == [667, 334] * runs
    assert not np.array_equal(whole.pixels, before.pixels)


@pytest.mark.parametrize("method", ["cocodiff", "stylegallery:steps=2"])
def test_the_other_methods_count_their_steps_right(tiny_backbone, job, method):
    from mast.methods.spec import parse_method

    spec = parse_method(method)
    made = mast.default_method(tiny_backbone, spec.method, **spec.options)
    found = run(job, tiny_backbone, made, cache=False, clean_end=True, steps=4)
    last = found.progress[-1]
    assert last.stage == "denoise" and last.done == last.total


@pytest.mark.parametrize("features", ["memory", "replay"])
@pytest.mark.parametrize("inversion", ["plain", "refined"])
def test_a_clean_end_is_cached_apart_and_replayed_bit_by_bit(tiny_backbone, job, features, inversion):
    options = {"inversion": inversion, "features": features}
    inner = run(job, tiny_backbone, **options)
    cold, warm = (run(job, tiny_backbone, **options, clean_end=True) for _ in range(2))
    assert cold.same_bits(warm) and not cold.same_bits(inner)
    assert any("3 of 3 pictures were inverted in an earlier run" in note for note in warm.result.notes)
    assert cold.same_bits(run(job, tiny_backbone, **options, clean_end=True, cache=False))
    assert run(job, tiny_backbone, **options).same_bits(inner)


def test_a_larger_level_ends_at_the_clean_end_too(tiny_backbone, job):
    levels = run(job, tiny_backbone, clean_end=True, size=128, coarse=64, steps=6, cache=False)
    fine = [step.t for step in levels.progress if step.stage == "denoise" and step.level == 1]
    assert fine[-1] == tiny_backbone.schedule(6).timesteps[0] and levels.progress[-1].done == len(fine)


def test_a_record_names_it_and_one_that_does_not_replays_with_a_move_less(tiny_backbone, job):
    whole = run(job, tiny_backbone, clean_end=True)
    record = json.loads(json.dumps(whole.result.provenance))
    assert record["settings"]["clean_end"] is True and settings_from(record).clean_end
    again = mast.stylize(job, tiny_backbone, "mast", settings_from(record))
    assert np.array_equal(np.asarray(again.image), whole.pixels)
    before = run(job, tiny_backbone)
    assert "clean_end" not in before.result.provenance["settings"]  # as records were before there was one
    assert not settings_from(before.result.provenance).clean_end
    record["settings"]["clean_end"] = "yes"
    with pytest.raises(InputError, match="clean_end"):
        settings_from(record)


@torch.inference_mode()
def test_without_a_clean_end_a_run_is_the_49_moves_it_always_was(tiny_backbone, job):
    """Written out here, so that records made before there was a clean end keep their bits."""
    scene = scene_of(job, tiny_backbone, cache=False)
    schedule, z = tiny_backbone.schedule(3), tiny_backbone.encode(scene_image(job))
    for i in range(2):
        prediction = tiny_backbone.predict(z, schedule.timesteps[i])
        _, noise = ddim.split(z, prediction, schedule.alphas[i], "epsilon")
        z = ddim.carry(z, noise, schedule.alphas[i], schedule.alphas[i + 1])
    assert torch.equal(z, scene.content.trajectory.noise)
    for i in (2, 1):
        prediction = tiny_backbone.predict(z, schedule.timesteps[i])
        z, _ = ddim.move(z, prediction, schedule.alphas[i], schedule.alphas[i - 1], "epsilon")
    assert torch.equal(z, run(job, tiny_backbone, "reconstruct", cache=False).latent)


def scene_image(job: mast.Job) -> torch.Tensor:
    from mast.pipeline import read_job
    from mast.pipeline.prepare import prepare

    return prepare(read_job(job), Settings(size=64), 64).image
