"""From a picture to its trajectory and features by the cheapest way, whichever way gives the same bits."""

from pathlib import Path

import pytest
import torch
from diffusers import DDIMScheduler

from mast.backbone.backbone import Backbone
from mast.features.cache import Cache
from mast.features.library import Library
from mast.features.recording import CONTENT, STYLE, Recorded, Replayed, Stored

STEPS = 3


def image(seed: int = 0, h: int = 64, w: int = 64) -> torch.Tensor:
    return torch.rand(1, 3, h, w, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def library(backbone, cache=None, refined=False, in_memory=True, steps=STEPS, dtype=torch.float16) -> Library:
    return Library(backbone, backbone.schedule(steps), refined, dtype, cache, in_memory)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "library")


def test_the_key_changes_with_picture_size_model_schedule_and_inversion(tiny_backbone):
    other = Backbone(**{**vars_of(tiny_backbone), "empty_prompt": tiny_backbone.empty_prompt + 1})
    predicts = Backbone(
        **{
            **vars_of(tiny_backbone),
            "scheduler": DDIMScheduler.from_config(tiny_backbone.scheduler.config, prediction_type="sample"),
        }
    )
    keys = [
        library(tiny_backbone).key(image()),
        library(tiny_backbone).key(image(1)),
        library(tiny_backbone).key(image(0, 64, 128)),
        library(other).key(image()),
        library(predicts).key(image()),
        library(tiny_backbone, steps=4).key(image()),
        library(tiny_backbone, refined=True).key(image()),
    ]
    assert len(set(keys)) == len(keys)
    assert library(tiny_backbone, in_memory=False).key(image()) == keys[0]


def vars_of(backbone: Backbone) -> dict:
    return {
        name: getattr(backbone, name) for name in ("name", "unet", "autoencoder", "scheduler", "empty_prompt")
    }


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("wants", [CONTENT, frozenset()])
def test_the_passes_foretold_are_the_passes_made_cold_and_warm(
    tiny_backbone, cache, refined, in_memory, wants
):
    for _ in ("cold", "warm"):
        made, books = [], library(tiny_backbone, cache, refined, in_memory)
        foretold = books.passes_for(image(), wants)
        books.look_up(image(), wants, made.append)
        assert len(made) == foretold
        assert books.passes_for(image(), wants) == 0, "and never again"
    assert foretold == 0


def test_a_picture_is_inverted_once_in_a_run_even_without_a_cache(tiny_backbone):
    made, books = [], library(tiny_backbone)
    first = books.look_up(image(), STYLE, made.append)
    count = len(made)
    second = books.look_up(image(), STYLE, made.append)
    assert len(made) == count and first[0] is second[0] and first[1] is second[1]


def test_every_source_gives_the_same_bits(tiny_backbone, cache):
    made = []
    kept, recorded = library(tiny_backbone, cache).look_up(image(), CONTENT, made.append)
    read, stored = library(tiny_backbone, cache).look_up(image(), CONTENT, made.append)
    again, replayed = library(tiny_backbone, in_memory=False).look_up(image(), CONTENT, made.append)
    assert isinstance(recorded, Recorded) and isinstance(stored, Stored) and isinstance(replayed, Replayed)
    assert torch.equal(kept.latents, read.latents) and torch.equal(kept.latents, again.latents)
    for step in range(STEPS):
        a, b, c = (source.features(step) for source in (recorded, stored, replayed))
        assert set(a) == set(b) == set(c)
        assert all(torch.equal(a[name], b[name]) and torch.equal(a[name], c[name]) for name in a)


def test_features_that_are_gone_are_recorded_again_from_the_trajectory(tiny_backbone, cache):
    _, recorded = library(tiny_backbone, cache, refined=True).look_up(image(), STYLE, lambda _: None)
    for entry in cache.entries():
        if entry.kind == "features":
            entry.path.unlink()
    made = []
    _, again = library(tiny_backbone, cache, refined=True).look_up(image(), STYLE, made.append)
    assert len(made) == STEPS
    for step in range(STEPS):
        for name, tensor in recorded.features(step).items():
            assert torch.equal(tensor, again.features(step)[name])


@pytest.mark.parametrize("kind", ["trajectories", "features"])
def test_a_cut_file_is_made_again(tiny_backbone, cache, kind):
    whole, _ = library(tiny_backbone, cache).look_up(image(), STYLE, lambda _: None)
    for entry in cache.entries():
        if entry.kind == kind:
            entry.path.write_bytes(entry.path.read_bytes()[:-64])
    made = []
    rebuilt, source = library(tiny_backbone, cache).look_up(image(), STYLE, made.append)
    assert len(made) == STEPS and torch.equal(rebuilt.latents, whole.latents)
    assert set(source.features(0)) == {f"{i}.{name}" for i in range(6) for name in STYLE}
    assert library(tiny_backbone, cache).passes_for(image(), STYLE) == 0


def test_a_flipped_bit_in_the_features_is_found_out(tiny_backbone, cache):
    library(tiny_backbone, cache).look_up(image(), STYLE, lambda step: None)
    [path] = (cache.folder / "features").glob("*")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    passes: list[int] = []
    _, source = library(tiny_backbone, cache).look_up(image(), STYLE, passes.append)
    assert len(passes) == STEPS and isinstance(source, Recorded)
    _, again = library(tiny_backbone, cache).look_up(image(), STYLE, passes.append)
    assert len(passes) == STEPS and isinstance(again, Stored)


def test_a_trajectory_of_the_wrong_length_is_not_believed(tiny_backbone, cache):
    books = library(tiny_backbone, cache, in_memory=False)
    cache.write("trajectories", books.key(image()), {"latents": torch.zeros(2, 4, 8, 8)})
    trajectory, _ = books.look_up(image(), STYLE, lambda _: None)
    assert len(trajectory.latents) == STEPS and books.hits == 0


def test_hits_are_counted(tiny_backbone, cache):
    for hits in (0, 1):
        books = library(tiny_backbone, cache)
        books.look_up(image(), STYLE, lambda _: None)
        assert books.hits == hits


def test_an_interrupted_inversion_is_not_cached(tiny_backbone, cache):
    def stop(step: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library(tiny_backbone, cache).look_up(image(), STYLE, stop)
    assert cache.entries() == []
