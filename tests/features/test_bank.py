"""Three sources of features, one set of numbers."""

import pytest
import torch
from safetensors.torch import save_file
from torch.utils._python_dispatch import TorchDispatchMode

from mast import Job, Mast, Region
from mast.backbone.instrument import controlled
from mast.backbone.sites import Site
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
from mast.methods import StyleID
from mast.pipeline.apart import sample_together
from tests.methods.scenes import scene_of, whole
from tests.tiny import halves, picture, run

STEPS = 3
LEFT, RIGHT = halves(64, 64)
JOB = Job(picture(64, 64, 1), (Region(picture(64, 64, 2), LEFT), Region(picture(64, 64, 3), RIGHT)))


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


class CountingBank(dict):
    """One timestep's features that note every name that is fetched."""

    def __init__(self, seen):
        super().__init__(seen)
        self.fetched = []

    def get(self, name, default=None):
        self.fetched.append(name)
        return super().get(name, default)


class CountingSource:
    def __init__(self, source):
        self.source, self.banks = source, []

    def features(self, step):
        self.banks.append(CountingBank(self.source.features(step)))
        return self.banks[-1]


def counted(method, backbone):
    """The banks of the photo and of the style of one run, by timestep."""
    kind, sources = type(method), []

    def sample(self, scene, on_step=None):
        for reference in (scene.content, *scene.styles):
            reference.source = CountingSource(reference.source)
            sources.append(reference.source)
        return kind.sample(self, scene, on_step)

    watched = type(kind.__name__, (kind,), {"sample": sample})(**method.options())
    run(whole(), backbone, watched, features="memory", cache=False)
    return [source.banks for source in sources]


@pytest.mark.parametrize(
    ("method", "content"),
    [(Mast(), CONTENT), (Mast(ddi=False), CONTENT - {"residual"}), (StyleID(), {"query"})],
)
def test_a_step_fetches_what_a_method_uses_once_and_by_name(tiny_backbone, method, content):
    """On a GPU every fetch is a copy: none twice, none for nothing."""
    for banks, wanted in zip(counted(method, tiny_backbone), (content, STYLE), strict=True):
        assert len(banks) == 2, "a bank for each of the two moves"
        for bank in banks:
            assert sorted(bank.fetched) == sorted(f"{site}.{name}" for site in range(6) for name in wanted)


def test_scenes_of_one_photo_fetch_its_features_once_for_all(tiny_backbone):
    scene = scene_of(JOB, tiny_backbone, features="memory")
    scenes = [scene.alone(i, True) for i in range(2)]
    scene.content.source = CountingSource(scene.content.source)
    sample_together(StyleID(), scenes)
    for bank in scene.content.source.banks:
        assert sorted(bank.fetched) == [f"{site}.query" for site in range(6)]


def test_what_is_recorded_leaves_the_device_once(tiny_backbone):
    class Counting(Recorder):
        kept = 0

        def _keep(self, tensor):
            self.kept += 1
            return super()._keep(tensor)

    recorder = Counting(tiny_backbone.sites, CONTENT, torch.float16)
    latent = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    with controlled(tiny_backbone.unet, tiny_backbone.sites, recorder), torch.inference_mode():
        tiny_backbone.predict(latent, 1)
    assert recorder.kept == 6 * 4  # query, key, value and residual; statistics are made where they are


def test_sixteen_bits_travel_to_the_device():
    """Cast after the move, not before it: half the bytes. The meta device stands for a GPU."""
    copied = []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket.__name__ == "_to_copy" and args[0].device.type == "cpu":
                copied.append((args[0].dtype, kwargs["device"].type, kwargs.get("dtype")))
            return function(*args, **(kwargs or {}))

    site = Site(0, "a", "r", 1, 2, 8)
    bank = {"0.key": torch.zeros(2, 4, 4, dtype=torch.float16)}
    with Copies():
        assert at_site(bank, site, torch.device("meta")).key.dtype == torch.float32
    assert copied == [(torch.float16, "meta", torch.float16)]
