"""Three sources of features, one set of numbers."""

import pytest
import torch
from safetensors.torch import save_file

from mast.backbone.instrument import controlled
from mast.core.attention import row_statistics
from mast.features.inversion import invert
from mast.features.recording import (
    CONTENT,
    STYLE,
    Recorded,
    Recorder,
    Replayed,
    Stored,
    at_site,
    available_memory,
    bytes_needed,
)

STEPS = 3


def record(backbone, wants, dtype, refined):
    """A trajectory and what was recorded on the way."""
    schedule = backbone.schedule(STEPS)
    clean = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(0))
    recorder, steps = Recorder(backbone.sites, wants, dtype), {}
    with controlled(backbone.unet, backbone.sites, recorder):
        trajectory = invert(
            backbone, clean, schedule, refined, lambda i: steps.update({i: recorder.take()}), features=True
        )
    return trajectory, Recorded(steps), schedule


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_recorded_replayed_and_stored_features_are_the_same_bits(tiny_backbone, tmp_path, dtype, refined):
    trajectory, recorded, schedule = record(tiny_backbone, CONTENT, dtype, refined)
    save_file(recorded.flat(), tmp_path / "features.safetensors")
    stored = Stored(tmp_path / "features.safetensors")
    replayed = Replayed(tiny_backbone, trajectory, schedule, CONTENT, dtype)
    for step in range(STEPS):
        a, b, c = (source.features(step) for source in (recorded, stored, replayed))
        assert set(a) == set(b) == set(c) == {f"{site}.{name}" for site in range(6) for name in CONTENT}
        for name in a:
            assert torch.equal(a[name], b[name]) and torch.equal(a[name], c[name]), (step, name)
            assert a[name].dtype == (torch.float32 if name.endswith("statistics") else dtype)


def test_recording_changes_nothing(tiny_backbone):
    schedule = tiny_backbone.schedule(STEPS)
    watched, _, _ = record(tiny_backbone, CONTENT, torch.float16, False)
    clean = torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(invert(tiny_backbone, clean, schedule).latents, watched.latents)


def test_replaying_leaves_the_unet_as_it_was(tiny_backbone):
    trajectory, _, schedule = record(tiny_backbone, STYLE, torch.float16, False)
    before = dict(tiny_backbone.unet.attn_processors)
    Replayed(tiny_backbone, trajectory, schedule, STYLE, torch.float16).features(1)
    assert all(tiny_backbone.unet.attn_processors[name] is kept for name, kept in before.items())


def test_a_site_gets_its_features_in_float32_with_the_shapes_of_its_grid(tiny_backbone):
    _, recorded, _ = record(tiny_backbone, CONTENT, torch.float16, False)
    for site in tiny_backbone.sites:
        h, w = site.grid((8, 16))
        seen = at_site(recorded.features(1), site, torch.device("cpu"))
        for tensor in (seen.query, seen.key, seen.value):
            assert tensor.shape == (8, h * w, 4) and tensor.dtype == torch.float32
        assert seen.residual.shape == (1, 32, h, w)
        assert seen.statistics.log_z.shape == seen.statistics.log_peak.shape == (8, h * w)


def test_statistics_are_those_of_the_rounded_tensors_that_attention_meets(tiny_backbone):
    _, recorded, _ = record(tiny_backbone, CONTENT, torch.float16, False)
    for site in tiny_backbone.sites:
        seen = at_site(recorded.features(2), site, torch.device("cpu"))
        expected = row_statistics(seen.query, seen.key)
        assert torch.equal(seen.statistics.log_z, expected.log_z)
        assert torch.equal(seen.statistics.log_peak, expected.log_peak)


def test_only_the_kept_keys_and_values_are_handed_out(tiny_backbone):
    _, recorded, _ = record(tiny_backbone, CONTENT, torch.float32, False)
    site, keep = tiny_backbone.sites[0], torch.tensor([0, 5, 31])
    whole = at_site(recorded.features(0), site, torch.device("cpu"))
    part = at_site(recorded.features(0), site, torch.device("cpu"), keep)
    assert torch.equal(part.key, whole.key[:, keep]) and torch.equal(part.value, whole.value[:, keep])
    assert torch.equal(part.query, whole.query)


def test_what_was_not_asked_for_is_none(tiny_backbone):
    _, recorded, _ = record(tiny_backbone, STYLE, torch.float16, False)
    seen = at_site(recorded.features(0), tiny_backbone.sites[0], torch.device("cpu"))
    assert seen.query is None and seen.residual is None and seen.statistics is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("wants", [CONTENT, STYLE])
def test_the_memory_estimate_is_exact(tiny_backbone, wants, dtype):
    _, recorded, _ = record(tiny_backbone, wants, dtype, False)
    taken = sum(tensor.numel() * tensor.element_size() for tensor in recorded.flat().values())
    assert bytes_needed(tiny_backbone.sites, (8, 16), STEPS, wants, dtype) == taken


def test_there_is_some_memory():
    assert available_memory() > 0
