"""Same inputs, same bits: whatever is cached, wherever features come from, however regions are ordered."""

import os
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

import mast
from mast import Job, Mast, Reconstruct, Region, Settings
from mast.features.cache import Cache
from tests.tiny import halves, picture, run


def test_two_runs_without_a_cache_are_equal(tiny_backbone, job):
    first, second = (run(job, tiny_backbone, cache=False) for _ in range(2))
    assert first.same_bits(second)
    assert first.result.provenance == second.result.provenance


@pytest.mark.parametrize("inversion", ["plain", "refined"])
def test_a_warm_cache_gives_the_bits_of_a_cold_one(tiny_backbone, job, inversion, own_cache):
    cold, warm = (run(job, tiny_backbone, inversion=inversion) for _ in range(2))
    assert cold.same_bits(warm)
    assert not [step for step in warm.progress if step.stage == "invert"], "nothing was inverted again"
    assert any("3 of 3 pictures were inverted in an earlier run" in note for note in warm.result.notes)
    assert not list(own_cache.rglob("*.part"))


@pytest.mark.parametrize("inversion", ["plain", "refined"])
def test_features_from_memory_and_replayed_are_equal(tiny_backbone, job, inversion):
    memory = run(job, tiny_backbone, inversion=inversion, features="memory", cache=False)
    replay = run(job, tiny_backbone, inversion=inversion, features="replay", cache=False)
    assert memory.same_bits(replay)


def test_replaying_from_a_cached_trajectory_is_equal_too(tiny_backbone, job):
    memory = run(job, tiny_backbone, features="memory", cache=False)
    for _ in ("cold", "warm"):
        assert run(job, tiny_backbone, features="replay").same_bits(memory)


def test_a_backbone_loaded_again_gives_the_same_bits(tiny_backbone, tiny_sd_folder, job):
    again = mast.load(tiny_sd_folder, device="cpu")
    assert run(job, again, cache=False).same_bits(run(job, tiny_backbone, cache=False))


def test_without_regions_a_run_is_the_reconstruction(tiny_backbone, pictures, job):
    nothing = run(Job(pictures["photo"]), tiny_backbone)
    assert nothing.same_bits(run(Job(pictures["photo"]), tiny_backbone, Mast(pi=0.5)))
    assert nothing.same_bits(run(Job(pictures["photo"]), tiny_backbone, Reconstruct()))
    assert nothing.same_bits(run(job, tiny_backbone, "reconstruct")), "which looks at no region"
    assert nothing.result.provenance["method"] == {"name": "reconstruct"}


def test_a_run_leaves_the_unet_as_it_was(tiny_backbone, job):
    latent = torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        before = tiny_backbone.predict(latent, 1)
        processors = dict(tiny_backbone.unet.attn_processors)
        run(job, tiny_backbone)
        assert torch.equal(tiny_backbone.predict(latent, 1), before)
    assert all(tiny_backbone.unet.attn_processors[name] is kept for name, kept in processors.items())


@pytest.mark.parametrize("method", ["mast", "shared"])
def test_the_order_of_regions_is_irrelevant(tiny_backbone, method):
    left, right = halves(64, 64)
    right[40:] = 0
    rest = 1 - left - right
    regions = [Region(picture(64, 64, 2 + i), mask) for i, mask in enumerate((left, right, rest))]
    runs = [
        run(Job(picture(64, 64, 1), order), tiny_backbone, method, feature_dtype="float32")
        for order in list(permutations(regions))[:4]
    ]
    for other in runs[1:]:
        torch.testing.assert_close(other.latent, runs[0].latent, atol=1e-4, rtol=1e-4)
        assert np.abs(other.pixels.astype(int) - runs[0].pixels.astype(int)).max() <= 1


def test_a_cache_is_shared_between_jobs_and_told_apart_by_what_matters(tiny_backbone, job, tmp_path):
    cache = Cache(tmp_path / "shared")
    settings = Settings(steps=3, size=64)
    made = []
    passes = lambda job, settings: (
        made.clear(),
        mast.stylize(job, tiny_backbone, settings=settings, on_step=made.append, cache=cache),
        sum(step.stage == "invert" for step in made),
    )[-1]
    assert passes(job, settings) == 9
    assert passes(job, settings) == 0
    swapped = Job(job.content, (replace(job.regions[0], style=job.regions[1].style), job.regions[1]))
    assert passes(swapped, settings) == 0, "its pictures are known"
    assert passes(job, replace(settings, steps=4)) == 12
    assert passes(job, replace(settings, inversion="refined")) == 9


def test_a_cache_that_cannot_be_written_does_not_break_the_run(tiny_backbone, job, tmp_path, monkeypatch):
    expected = run(job, tiny_backbone, cache=False)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "file" / "cache"))
    assert run(job, tiny_backbone).same_bits(expected)
    if os.getuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        monkeypatch.setenv("MAST_CACHE", str(tmp_path / "locked"))
        assert run(job, tiny_backbone).same_bits(expected)


def test_damaged_cache_files_are_made_again(tiny_backbone, job):
    expected = run(job, tiny_backbone)
    for entry in Cache().entries():
        entry.path.write_bytes(entry.path.read_bytes()[: entry.bytes // 2])
    assert run(job, tiny_backbone).same_bits(expected)
    assert len(Cache().entries()) == 6


@pytest.mark.parametrize("features", ["memory", "replay"])
def test_ctrl_c_in_the_second_inversion_keeps_the_first(tiny_backbone, job, features, own_cache):
    def interrupt(progress) -> None:
        if progress.done == (5 if features == "memory" else 3):
            raise KeyboardInterrupt

    processors = dict(tiny_backbone.unet.attn_processors)
    settings = Settings(steps=3, size=64, features=features)
    with pytest.raises(KeyboardInterrupt):
        mast.stylize(job, tiny_backbone, settings=settings, on_step=interrupt)
    kept = [entry.kind for entry in Cache().entries()]
    assert kept.count("trajectories") == 1 and not list(own_cache.rglob("*.part"))
    assert all(tiny_backbone.unet.attn_processors[name] is own for name, own in processors.items())
    finished = run(job, tiny_backbone, features=features)
    assert any("1 of 3 pictures" in note for note in finished.result.notes)
    assert finished.same_bits(run(job, tiny_backbone, features=features, cache=False))
