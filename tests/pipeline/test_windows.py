"""Pictures painted in overlapping windows: what is held at once, what comes out, and what is said of it."""

import weakref

import numpy as np
import pytest
import torch

import mast
from mast import Cancelled, InputError, Job, Region, Settings
from mast.core.windows import Windows
from mast.features.recording import Replayed
from mast.methods.spec import parse_method
from mast.pipeline import diffusion, windows
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
LEFT, RIGHT = halves(192, 128)
JOB = Job(picture(192, 128, 1), (Region(picture(64, 64, 2), LEFT), Region(picture(64, 64, 3), RIGHT)))
WIDE = {"size": 192, "steps": 4, "windows": 128}
COUNT = 2  # windows of 128 px on 192x128, the left and the right two thirds


def made(backbone, method):
    spec = parse_method(method)
    return mast.default_method(backbone, spec.method, **spec.options)


@pytest.mark.parametrize("method", ["mast", "shared", "styleid", "zstar", "reconstruct"])
@pytest.mark.parametrize("coarse", [64, "off"])
def test_methods_paint_in_windows_and_a_record_replays(tiny_backbone, method, coarse):
    method = made(tiny_backbone, method)
    seen = run(JOB, tiny_backbone, method, coarse=coarse, **WIDE)
    assert seen.result.image.size == (192, 128)
    assert any(f"in {COUNT} overlapping windows of 128 px" in note for note in seen.result.notes)
    settings = seen.result.provenance["settings"]
    assert settings["windows"] == 128
    again = mast.stylize(JOB, tiny_backbone, method, Settings(**settings))
    assert np.array_equal(np.asarray(again.image), seen.pixels)
    whole = run(JOB, tiny_backbone, method, coarse=coarse, **{**WIDE, "windows": "off"})
    assert "windows" not in whole.result.provenance["settings"]
    assert not torch.equal(whole.latent, seen.latent)


@pytest.mark.parametrize("method", ["cocodiff", "stylegallery:steps=3", "styleid:released=true"])
def test_a_method_that_looks_at_the_whole_picture_is_refused_windows(tiny_backbone, method, monkeypatch):
    method = made(tiny_backbone, method)
    with pytest.raises(InputError, match=rf"{method.name} looks at the whole picture.*--windows off"):
        run(JOB, tiny_backbone, method, **WIDE)
    monkeypatch.setattr(windows, "free_bytes", lambda device: 1 << 20)
    alone = run(JOB, tiny_backbone, method, **{**WIDE, "windows": "auto", "steps": 2})
    assert "windows" not in alone.result.provenance["settings"]
    assert any("at once takes about" in n and "a smaller --size" in n for n in alone.result.notes)


@pytest.mark.parametrize("method", ["mast", "styleid"])
@pytest.mark.parametrize("coarse", [64, "off"])
def test_one_window_is_the_whole_run_bit_by_bit(tiny_backbone, method, coarse, monkeypatch):
    options = {**WIDE, "windows": "off", "coarse": coarse, "steps": 3, "cache": False}
    whole = run(JOB, tiny_backbone, method, **options)
    alone = lambda latent, *_: Windows(latent, max(latent), 8)
    monkeypatch.setattr(diffusion, "windows_on", alone)
    assert run(JOB, tiny_backbone, method, **options).same_bits(whole)
    assert run(JOB, tiny_backbone, method, **{**options, "features": "replay"}).same_bits(whole)


def test_windows_as_large_as_the_picture_are_none(tiny_backbone):
    settings = [
        run(JOB, tiny_backbone, **{**WIDE, "windows": side}).result.provenance["settings"]
        for side in (192, 4096, "off")
    ]
    assert settings[0] == settings[1] == settings[2]


def test_windows_come_in_whole_strides(tiny_backbone):
    seen = run(JOB, tiny_backbone, **{**WIDE, "windows": 70})
    assert seen.result.provenance["settings"]["windows"] == 128


def test_refining_everything_is_the_direct_run_bit_by_bit(tiny_backbone):
    whole = run(JOB, tiny_backbone, coarse=64, refine=1.0, **WIDE)
    direct = run(JOB, tiny_backbone, coarse="off", **WIDE)
    assert whole.same_bits(direct) and whole.result.provenance == direct.result.provenance


@pytest.mark.parametrize("inversion", ["plain", "refined"])
def test_features_from_memory_disk_and_replay_give_the_same_bits(tiny_backbone, inversion, own_cache):
    options = {**WIDE, "steps": 3, "inversion": inversion}
    replayed = run(JOB, tiny_backbone, features="replay", cache=False, **options)
    recorded = run(JOB, tiny_backbone, features="memory", cache=False, **options)
    cold = run(JOB, tiny_backbone, **options)
    warm = run(JOB, tiny_backbone, **options)
    assert recorded.same_bits(replayed) and cold.same_bits(replayed) and warm.same_bits(replayed)
    assert not any(step.stage == "invert" for step in warm.progress)


class Held:
    """Bytes of features alive, and the largest that the U-Net and the autoencoder were shown, in cells."""

    def __init__(self, monkeypatch, backbone):
        self.alive, self.most, self.shown, self.decoded = 0, 0, 0, 0
        replay, predict, decode = Replayed.features, type(backbone).predict, backbone.autoencoder.decode

        def features(source, step):
            found = replay(source, step)
            for tensor in found.values():
                size = tensor.numel() * tensor.element_size()
                self.alive += size
                weakref.finalize(tensor, self.gone, size)
            self.most = max(self.most, self.alive)
            return found

        def watched(own, latent, t):
            self.shown = max(self.shown, latent.shape[-1] * latent.shape[-2])
            return predict(own, latent, t)

        def decoding(latent):
            self.decoded = max(self.decoded, latent.shape[-1] * latent.shape[-2])
            return decode(latent)

        monkeypatch.setattr(Replayed, "features", features)
        monkeypatch.setattr(type(backbone), "predict", watched)
        monkeypatch.setattr(backbone.autoencoder, "decode", decoding)

    def gone(self, size):
        self.alive -= size


def test_what_is_held_does_not_grow_with_the_picture(tiny_backbone, monkeypatch):
    held = []
    for width in (192, 448):
        left, right = halves(width, 192)
        job = Job(
            picture(width, 192, 1), (Region(picture(64, 64, 2), left), Region(picture(64, 64, 3), right))
        )
        with monkeypatch.context() as patch:
            watch = Held(patch, tiny_backbone)
            run(job, tiny_backbone, size=width, windows=128, steps=2, features="replay", cache=False)
        held.append((watch.most, watch.shown, watch.decoded))
    assert held[0] == held[1] and held[0][0] > 0
    assert held[0][1:] == (16 * 16, 16 * 16)


def test_every_pass_is_told_and_can_end_the_run(tiny_backbone):
    told = run(JOB, tiny_backbone, cache=False, **WIDE).progress
    timesteps = len(tiny_backbone.schedule(4))
    for stage, count in (("invert", timesteps * (COUNT + 2)), ("denoise", (timesteps - 1) * COUNT)):
        steps = [(step.done, step.total) for step in told if step.stage == stage]
        assert steps == [(i + 1, count) for i in range(count)], stage
    for step in told:
        if step.stage == "denoise":
            assert step.latent.shape == (1, 4, 16, 24) and step.x0().shape == (128, 192, 3)

    def stop(step):
        if step.stage == "denoise":
            raise Cancelled

    with pytest.raises(Cancelled):
        mast.stylize(JOB, tiny_backbone, "mast", Settings(**WIDE), on_step=stop)


def test_the_callback_of_diffusers_is_called_once_a_step(tiny_backbone):
    calls = []
    callback = lambda backbone, step, t, values: calls.append((step, tuple(values["latents"].shape)))
    run(JOB, tiny_backbone, callback_on_step_end=callback, **WIDE)
    assert calls == [(i, (1, 4, 16, 24)) for i in range(len(tiny_backbone.schedule(4)) - 1)]


def test_what_no_region_covers_keeps_its_pixels_and_windows_without_a_region_are_painted(tiny_backbone):
    """The right window of these sees nothing of the region."""
    dot = np.zeros((128, 256), np.float32)
    dot[:, :48] = 1
    job = Job(picture(256, 128, 1), (Region(picture(64, 64, 2), dot),))
    for method in ("mast", "styleid"):
        seen = run(job, tiny_backbone, method, **{**WIDE, "size": 256, "keep_unassigned": "exact"})
        assert np.array_equal(seen.pixels[:, 60:], np.asarray(job.content)[:, 60:])
        assert not np.array_equal(seen.pixels[:, :40], np.asarray(job.content)[:, :40])


def test_auto_takes_windows_where_memory_is_short_and_only_there(tiny_backbone, monkeypatch):
    settings = Settings(size=448, windows="auto")
    method = made(tiny_backbone, "mast")
    need = lambda w, h: 2 * windows.bytes_at_once(tiny_backbone, method, (w, h), 2)
    for free, side in (
        (need(448, 320), "off"),
        (need(448, 320) - 2, 128),
        (need(128, 128) - 2, 128),  # two of its strides are the least
        (0, 128),
    ):
        monkeypatch.setattr(windows, "free_bytes", lambda device, free=free: free)
        found = windows.settled_windows(settings, method, tiny_backbone, (448, 320), 2)
        assert found == side
    monkeypatch.setitem(tiny_backbone.defaults, "size", 128)
    for free, side in ((need(256, 256), 256), (need(256, 256) - 2, 128)):
        monkeypatch.setattr(windows, "free_bytes", lambda device, free=free: free)
        assert windows.settled_windows(settings, method, tiny_backbone, (448, 320), 2) == side


def test_people_get_auto_and_the_paper_none(tiny_backbone):
    assert mast.default_settings(tiny_backbone).windows == "auto"
    assert mast.default_settings(tiny_backbone, "paper").windows == Settings().windows == "off"


@pytest.mark.parametrize("wrong", ["on", 3, True, 10000])
def test_bad_windows_are_refused(wrong):
    with pytest.raises(InputError, match="windows"):
        Settings(windows=wrong)


# ------------------------------------------------------------------------------------------------ looks


def steps_at(difference: np.ndarray, columns: list[int]) -> float:
    """How much a picture of differences changes from the pixel left of a column to the column itself."""
    return float(np.mean([np.abs(difference[:, x] - difference[:, x - 1]).mean() for x in columns]))


def test_windows_leave_no_seams_and_stay_near_the_whole(preview, example_photo):
    """Against a run of the whole: differences jump no more where windows begin and end than between them."""
    photo = mast.read_job(Job(example_photo)).photo.resize((256, 128))
    style = picture(256, 256, 2)
    options = {"size": 256, "steps": 4, "inversion": "refined"}
    borders = [64, 128, 192]  # of windows 128 px wide at 0, 64 and 128
    others = [x + shift for x in borders for shift in (-16, -8, 8, 16)]  # cells have borders, too
    for job, most in ((Job(photo), 6.0), (Job(photo, (Region(style),)), 25.0)):
        whole = run(job, preview, **options).pixels.astype(float)
        seen = run(job, preview, windows=128, **options).pixels.astype(float)
        difference = seen - whole
        assert np.abs(difference).mean() < most
        assert steps_at(difference, borders) < 1.25 * steps_at(difference, others) + 0.1


def test_no_region_at_all_is_the_photos_reconstruction(preview, example_photo):
    """One trajectory out and the same one back, blended alike."""
    photo = mast.read_job(Job(example_photo)).photo.resize((192, 128))
    seen = run(Job(photo), preview, size=192, steps=6, inversion="refined", windows=128).pixels
    image = torch.from_numpy(np.asarray(photo).copy()).permute(2, 0, 1)[None] / 127.5 - 1
    own = preview.decode(preview.encode(image)).clamp(-1, 1)[0].permute(1, 2, 0).numpy()
    assert np.abs(seen - (own + 1) * 127.5).mean() < 5
