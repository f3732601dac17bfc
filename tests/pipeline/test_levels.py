"""Coarse to fine: levels, what they take up, and the laws that tie them to a direct run."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mast
from mast import InputError, Job, Region, Settings
from mast.core import ddim
from mast.pipeline.levels import level_sizes, refined_steps, taken_up
from tests.methods.scenes import scene_of
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
LEFT, RIGHT = halves(128, 96)
JOB = Job(picture(128, 96, 1), (Region(picture(64, 64, 2), LEFT), Region(picture(64, 64, 3), RIGHT)))
FINE = {"size": 128, "steps": 6, "coarse": 64}


@given(st.integers(64, 8192), st.integers(64, 2048), st.floats(0.05, 0.95))
def test_levels_at_most_double_and_end_at_the_size(size, native, refine):
    sizes = level_sizes(size, native, "auto", refine)
    assert sizes[-1] == size and sizes == sorted(set(sizes))
    assert all(b <= 2 * a + 1 for a, b in pairwise(sizes))
    assert len(sizes) == 1 or sizes[0] == native


def test_when_there_is_one_level_only():
    assert level_sizes(1024, 512, "auto", 0.4) == [512, 1024]
    assert level_sizes(2048, 512, "auto", 0.4) == [512, 1024, 2048]
    assert level_sizes(600, 512, "auto", 0.4) == [600], "a little above its own size a model needs no help"
    assert level_sizes(1024, 512, "off", 0.4) == level_sizes(1024, 512, "auto", 1.0) == [1024]
    assert level_sizes(512, 256, 384, 0.4) == [384, 512]


def test_a_level_takes_up_the_photos_own_trajectory(tiny_backbone):
    """With the photo itself for a picture, z_k is the photo's inverted latent."""
    scene = scene_of(JOB, tiny_backbone, size=64)
    clean, noise = scene.content.trajectory.latents[:1], scene.content.trajectory.noise
    torch.testing.assert_close(taken_up(clean, scene).noisy, noise, atol=1e-6, rtol=0)
    other = taken_up(clean + 1, scene)
    torch.testing.assert_close(other.noisy, noise + scene.schedule.alphas[-1] ** 0.5, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", ["mast", "styleid", "zstar", "cocodiff", "stylegallery:steps=3"])
def test_every_diffusion_method_goes_coarse_to_fine_and_inverts_less(tiny_backbone, method):
    from mast.methods.spec import parse_method

    spec = parse_method(method)
    made = mast.default_method(tiny_backbone, spec.method, **spec.options)
    levels = run(JOB, tiny_backbone, made, cache=False, **FINE)
    direct = run(JOB, tiny_backbone, made, cache=False, **{**FINE, "coarse": "off"})
    assert levels.result.image.size == direct.result.image.size == (128, 96)
    assert not np.array_equal(levels.pixels, direct.pixels)
    fine = [step for step in levels.progress if step.level == 1]
    assert {step.levels for step in levels.progress} == {2}
    passes = [step for step in fine if step.stage == "invert"]
    assert 0 < len(passes) <= 3 * refined_steps(0.4, 6) < 3 * 6, "only as far as step k"
    assert levels.result.provenance["settings"]["coarse"] == 64
    assert any("coarse to fine: 64, 128 px" in note for note in levels.result.notes)


def test_refining_everything_is_the_direct_run_bit_by_bit(tiny_backbone):
    whole = run(JOB, tiny_backbone, **{**FINE, "refine": 1.0})
    direct = run(JOB, tiny_backbone, **{**FINE, "coarse": "off"})
    assert whole.same_bits(direct)
    assert whole.result.provenance == direct.result.provenance


def test_no_region_at_all_is_the_photos_reconstruction(tiny_backbone):
    photo = Job(JOB.content)
    assert run(photo, tiny_backbone, **FINE).same_bits(run(photo, tiny_backbone, size=128, steps=6))


def test_a_record_replays_its_levels(tiny_backbone):
    """The record names the first level itself, so that the model's idea of its own size may change."""
    made = run(JOB, tiny_backbone, **{**FINE, "coarse": "auto"})
    settings = made.result.provenance["settings"]
    assert (settings["size"], settings["coarse"], settings["refine"]) == (128, 64, 0.4)
    again = mast.stylize(JOB, tiny_backbone, "mast", Settings(**settings))
    assert np.array_equal(np.asarray(again.image), made.pixels)


def test_the_clean_part_of_a_schedule_knows_the_whole():
    whole = ddim.make_schedule({"steps_offset": 1, "beta_schedule": "scaled_linear"}, 50)
    part = whole.clean_part(21)
    assert len(part) == 21 and part.whole_length == part.clean_part(5).whole_length == 50
    assert part.timesteps == whole.timesteps[:21] and part.alphas == whole.alphas[:21]


@pytest.mark.parametrize(
    "wrong", [{"coarse": "on"}, {"coarse": 3}, {"refine": 0}, {"refine": 1.5}, {"size": "x"}]
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Settings(**wrong)


def test_by_itself_the_size_is_the_models_and_never_more_than_the_photos(tiny_backbone):
    small = mast.stylize(JOB, tiny_backbone, "mast", mast.default_settings(tiny_backbone, steps=2))
    assert small.provenance["settings"]["size"] == 128
    large = Job(picture(800, 600, 1), (Region(picture(64, 64, 2)),))
    settings = mast.default_settings(tiny_backbone, steps=2, size=64)
    notes = mast.stylize(large, tiny_backbone, "mast", settings).notes
    assert any("painted at 64 px and enlarged to the photo's 800 px" in note for note in notes)
    settings = mast.default_settings(tiny_backbone, steps=2, size=256, coarse="off")
    notes = mast.stylize(JOB, tiny_backbone, "mast", settings).notes
    assert any("the photo is 128 px" in note and "enlarged to 256 px" in note for note in notes)


def test_a_region_too_small_to_show_its_style_is_said(tiny_backbone):
    dot = np.zeros((96, 128), np.float32)
    dot[40:56, 40:56] = 1
    job = Job(JOB.content, (Region(picture(64, 64, 2), dot), Region(picture(64, 64, 3))))
    notes = run(job, tiny_backbone, size=128, steps=2).result.notes
    assert any(note.startswith("region 1") and "cells of the finest" in note for note in notes)
    assert not any(note.startswith("region 2") for note in notes)


# ------------------------------------------------------------------------------- what is left at small levels


def dotted(width: int, **region) -> Job:
    """A photo with a dot of so many pixels a side and, unless there is nothing else, a large region."""
    dot, large = np.zeros((2, 256, 256), np.float32)
    dot[100 : 100 + width, 100 : 100 + width] = 1
    large[160:] = 1
    regions = [Region(picture(64, 64, 2), dot, **region), Region(picture(64, 64, 3), large)]
    return Job(picture(256, 256, 1), tuple(regions))


LARGE = {"size": 256, "steps": 3, "coarse": 64, "features": "replay"}


def test_a_region_lost_at_a_small_level_is_painted_above_it_and_that_is_said(tiny_backbone):
    """On the 4x4 grid of the 64 px level a dot of 10 px covers 2 % of a cell; on the 8x8 grid, 10 %."""
    lost = run(dotted(12), tiny_backbone, **LARGE).result
    assert lost.provenance["settings"]["coarse"] == 64
    said = [note for note in lost.notes if "too small for" in note]
    assert len(said) == 1 and said[0].startswith("region 1") and "64 px level" in said[0]
    assert "painted from 128 px on only" in said[0] and "--coarse" in said[0]
    kept = run(dotted(64), tiny_backbone, **LARGE).result.notes
    assert not any("too small for" in note for note in kept)


def test_a_level_at_which_no_region_is_left_is_not_painted(tiny_backbone):
    alone = Job(dotted(12).content, dotted(12).regions[:1])
    seen = run(alone, tiny_backbone, **LARGE)
    assert seen.result.provenance["settings"]["coarse"] == 128
    assert {step.levels for step in seen.progress} == {2}
    assert any("coarse to fine: 128, 256 px" in note for note in seen.result.notes)


def test_a_level_at_which_a_style_mask_leaves_no_key_is_not_painted(tiny_backbone):
    """The painting is as large as the level: at 64 px its 4x4 grid has no cell that is covered by half."""
    part = np.zeros((64, 64), np.float32)
    part[12:22, 12:22] = 1
    seen = run(dotted(64, style_mask=part), tiny_backbone, **LARGE)
    assert seen.result.provenance["settings"]["coarse"] == 128
    again = mast.stylize(
        dotted(64, style_mask=part), tiny_backbone, "mast", Settings(**seen.result.provenance["settings"])
    )
    assert np.array_equal(np.asarray(again.image), seen.pixels)


def test_a_region_lost_at_every_level_is_refused_before_the_first_pass(tiny_backbone):
    told = []
    with pytest.raises(InputError, match="vanishes"):
        mast.stylize(dotted(4), tiny_backbone, "mast", Settings(**LARGE), on_step=told.append)
    assert not told
