"""A training begins, stops, goes on, and is exported; its losses and its learning rate are as they should."""

import argparse
import os
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from safetensors.torch import load_file

import mast
from mast.backbone.device import cpu_runs_bfloat16
from mast.backbone.instrument import controlled
from mast.backbone.preview.autoencoder import PatchAutoencoder
from mast.backbone.sites import sites_for
from mast.job import InputError
from mast.metrics.lpips import load_lpips
from tests.training.small import SMALL, TINY, copy_training
from training import compare, decoder, export, precision, unet
from training.diffusion import SCHEDULE, empty_prompt, levels, predicted_clean, velocity
from training.objective import Objective
from training.pairs import Pairing, lend
from training.perceptual import Look, StyleLoss, lpips_distance, moments
from training.run import Run, load


def test_judges_are_arrays_or_an_error_that_helps(weights: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"vgg16.ckpt: no such file; give the path of lpips-vgg"):
        StyleLoss(tmp_path / "vgg16.ckpt")
    with pytest.raises(InputError, match="not LPIPS' file for vgg"):
        StyleLoss(weights["alex"])
    (tmp_path / "bad").write_bytes(pickle.dumps(np.testing.assert_equal))
    with pytest.raises(InputError, match="not a file of plain arrays"):
        StyleLoss(tmp_path / "bad")


def test_style_and_structure(weights: dict[str, Path]) -> None:
    image = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    judge = StyleLoss(weights["vgg"])
    own = judge.look(image)
    style, content = judge(image, [own], own)
    assert style.shape == content.shape == (2,) and style.max() < 1e-9 and not content.any()
    flat, _ = judge(image, [judge.look(torch.zeros_like(image))], own)
    assert (flat <= StyleLoss.LIMIT + 1e-5).all()
    other = judge.look(image.roll(1, 0) * 0.3)
    plain, _ = judge(image, [other], own)
    whole, _ = judge(image, [other], own, torch.ones(2, 1, 64, 64))
    torch.testing.assert_close(whole, plain)
    joined = Look.join([judge.look(image[:1]), judge.look(image[1:])])
    torch.testing.assert_close(own.rows(1).structure, own.structure[1:])
    for a, b in ((joined, own), (Look.join([own.rows(0), own.rows(1)]), own)):
        torch.testing.assert_close(judge(image, [other], a), judge(image, [other], b), atol=1e-5, rtol=1e-4)


def test_a_region_is_judged_by_itself(weights: dict[str, Path]) -> None:
    """Left half of one picture, right half of another: each half is as its own picture, not as the other."""
    rng = torch.Generator().manual_seed(0)
    a, b = (torch.rand(1, 3, side, side, generator=rng) * 2 - 1 for side in (64, 8))
    b = b.repeat_interleave(8, 2).repeat_interleave(8, 3)
    left = torch.zeros(1, 1, 64, 64)
    left[..., :32] = 1
    masks = torch.cat([left, 1 - left], 1)
    joined, judge = torch.where(left > 0, a, b), StyleLoss(weights["vgg"])
    looks = [judge.look(a), judge.look(b)]
    right_way, _ = judge(joined, looks, looks[0], masks)
    wrong_way, _ = judge(joined, looks[::-1], looks[0], masks)
    assert right_way < 0.3 * wrong_way
    features = torch.randn(1, 4, 6, 6)
    weight = torch.zeros(1, 6, 6)
    weight[:, :3] = 1
    for got, wanted in zip(moments(features, weight), moments(features[:, :, :3]), strict=True):
        torch.testing.assert_close(got, wanted)


def test_lpips_has_gradients(weights: dict[str, Path]) -> None:
    """Also where a picture shows the network nothing at all, which makes every feature zero."""
    lpips = load_lpips("alex", weights["alex"])
    nothing = lpips.shift.expand(1, 3, 64, 64)
    other = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for image in (nothing, other):
        image = image.clone().requires_grad_()
        distance = lpips_distance(lpips, image, other.flip(3))
        torch.testing.assert_close(distance.detach(), lpips(image.detach(), other.flip(3)))
        distance.sum().backward()
        assert image.grad is not None and image.grad.isfinite().all()
    assert image.grad.abs().max() > 0


def test_noise_levels_are_the_scheduler_s() -> None:
    scheduler = DDIMScheduler(**SCHEDULE)
    t = torch.tensor([1, 500, 999])
    clean, noise = torch.randn(3, 16, 8, 8), torch.randn(3, 16, 8, 8)
    signal_level, noise_level = levels(t)
    noisy = signal_level * clean + noise_level * noise
    torch.testing.assert_close(noisy, scheduler.add_noise(clean, noise, t), atol=1e-5, rtol=1e-4)
    v = velocity(noisy, clean, t)
    torch.testing.assert_close(v, scheduler.get_velocity(clean, noise, t), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(predicted_clean(noisy, v, t), clean, atol=1e-4, rtol=1e-4)


def test_lending() -> None:
    rows = torch.tensor([0.0, 1, 2, 3]).view(4, 1, 1)
    assert lend(rows, "own").flatten(1).tolist() == [[0], [1], [2], [3]]
    assert lend(rows, "both").flatten(1).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert lend(rows, "swapped").flatten(1).tolist() == [[1], [0], [3], [2]]
    assert lend(rows, "partner's").flatten(1).tolist() == [[1], [1], [3], [3]]


def test_own_keys_and_values_are_the_plain_unet() -> None:
    torch.manual_seed(0)
    model = UNet2DConditionModel(**TINY).eval()
    z, t = torch.randn(4, 16, 8, 8), torch.tensor([500])

    @torch.no_grad()
    def predict(pairing: Pairing) -> torch.Tensor:
        with controlled(model, sites_for(model), pairing):
            return model(z, t, empty_prompt(model, 4)).sample

    with torch.no_grad():
        plain = model(z, t, empty_prompt(model, 4)).sample
    own, lent = predict(Pairing()), predict(Pairing("partner's"))
    shared, all_of_it = predict(Pairing("masses", 0.5, 1.0)), predict(Pairing("masses", 1.0, 1.0))
    torch.testing.assert_close(plain, own, atol=1e-5, rtol=0)
    torch.testing.assert_close(plain[1::2], lent[1::2], atol=1e-5, rtol=0)  # a partner sees its own
    assert not torch.allclose(plain[::2], lent[::2], atol=1e-4), "a picture sees its partner's"
    torch.testing.assert_close(all_of_it, lent, atol=1e-5, rtol=0)
    assert not torch.allclose(shared[::2], lent[::2], atol=1e-4)
    assert not torch.allclose(shared[::2], plain[::2], atol=1e-4)
    assert not torch.allclose(predict(Pairing("masses", 1.0, 5.0))[::2], lent[::2], atol=1e-4)


def test_large_crops_come_in_small_batches() -> None:
    assert [unet.pairs_of(8, size, 192) for size in (64, 128, 192, 256, 384)] == [8, 8, 8, 4, 2]
    assert [unet.pairs_of(8, size, 128) for size in (128, 160, 192, 256, 384)] == [8, 5, 4, 2, 2]


def test_a_training_goes_on_where_it_stopped(work: Path, images: list[np.ndarray], tmp_path: Path) -> None:
    before = load(work / "unet.pt")
    assert (before["step"], before["seen"]) == (10, 40)
    assert before.keys() == {"model", "optimizer", "ema", "step", "seen", "config"}
    copy_training(work, tmp_path)
    unet.train(images, tmp_path, Run(steps=1), shares={"self": 1.0}, **SMALL)
    after = load(tmp_path / "unet.pt")
    assert (after["step"], after["seen"]) == (11, 44)
    assert next(iter(after["optimizer"]["state"].values()))["step"] == 11
    name = "conv_in.weight"
    keep = 12 / 21  # the average starts quickly: (1 + step) / (10 + step)
    expected = keep * before["ema"][name] + (1 - keep) * after["model"][name]
    assert torch.allclose(after["ema"][name], expected, atol=1e-6)
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.is_file()) == [".pt"] * len(
        list(tmp_path.glob("*.pt"))
    )
    unet.train(images, tmp_path, Run(steps=1), shares={"self": 1.0}, ema_keep=0.0, **SMALL)
    forgetful = load(tmp_path / "unet.pt")
    assert torch.equal(forgetful["ema"][name], forgetful["model"][name])
    with pytest.raises(ValueError, match="moving average"):
        unet.train(images, tmp_path, Run(steps=1), ema_keep=1.0, **SMALL)
    (tmp_path / "components.pt").unlink()
    with pytest.raises(FileNotFoundError, match="worth nothing without its encoder"):
        unet.train(images, tmp_path, Run(steps=1), **SMALL)


def test_a_signal_saves_and_leaves(work: Path, images: list[np.ndarray], tmp_path: Path, monkeypatch) -> None:
    copy_training(work, tmp_path)
    step = unet.optimizer_step

    def interrupted(*arguments) -> None:
        step(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(unet, "optimizer_step", interrupted)
    handler = signal.getsignal(signal.SIGTERM)
    unet.train(images, tmp_path, Run(minutes=5), shares={"self": 1.0}, **SMALL)
    assert load(tmp_path / "unet.pt")["step"] == 11
    assert signal.getsignal(signal.SIGTERM) is handler


def test_the_learning_rate_falls_to_zero() -> None:
    run = Run(steps=100, decay=50)
    rates = []
    for run.steps_done in (0, 50, 75, 100):
        rates.append(run.rate())
    assert rates == pytest.approx([1, 1, 0.5, 0])
    run = Run(steps=1)
    run.steps_done = 2
    assert run.rate() == 1, "no decay was asked for"
    with pytest.raises(ValueError, match="within the run"):
        Run(minutes=1, decay=2)
    with pytest.raises(ValueError, match="either minutes, or steps"):
        Run(steps=1, until=2)


def test_a_run_up_to_a_step_knows_where_it_was_interrupted(
    work: Path, images: list[np.ndarray], tmp_path: Path
) -> None:
    assert Run(until=100, decay=40).begin_at(80).rate() == pytest.approx(0.5)
    assert Run(steps=100, decay=40).begin_at(80).rate() == 1
    copy_training(work, tmp_path)
    for _ in range(2):
        unet.train(images, tmp_path, Run(until=11, decay=1), shares={"self": 1.0}, **SMALL)
        assert load(tmp_path / "unet.pt")["step"] == 11


def test_modes_that_lack_something_are_refused(
    work: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="need --vgg"):
        unet.train(images, tmp_path, Run(steps=1), shares={"stylize": 1.0}, **SMALL)
    with pytest.raises(ValueError, match=r"training\.policy"):
        unet.train(images, tmp_path, Run(steps=1), vgg=weights["vgg"], shares={"policy": 1.0}, **SMALL)
    with pytest.raises(FileNotFoundError, match=r"training\.policy"):
        unet.train(images, tmp_path, Run(steps=1), vgg=weights["vgg"], policy=tmp_path / "policy.pt", **SMALL)
    assert unet.mode_shares("self=2,policy=3") == {"self": 2, "policy": 3}
    with pytest.raises(argparse.ArgumentTypeError, match="there is no mode slef"):
        unet.mode_shares("slef=2")


def test_the_decoder_goes_on_and_the_encoder_stays(
    work: Path, images: list[np.ndarray], tmp_path: Path
) -> None:
    copy_training(work, tmp_path)
    decoder.train(images, tmp_path, Run(steps=1), size=64, batch=2)
    before, after = load(work / "decoder.pt"), load(tmp_path / "decoder.pt")
    assert (before["step"], after["step"]) == (4, 5) and after["used"] > before["used"]
    assert torch.equal(before["ema"]["analysis"], after["ema"]["analysis"])
    assert not torch.equal(before["model"]["leave.weight"], after["model"]["leave.weight"])


def test_an_export_is_the_average(work: Path, exported: Path) -> None:
    layout = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert layout == {
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
        "scheduler/scheduler_config.json",
        "autoencoder/config.json",
        "autoencoder/patch_autoencoder.safetensors",
        "empty_prompt.safetensors",
        "defaults.json",
        "training.json",
    }
    model = UNet2DConditionModel.from_pretrained(exported / "unet", torch_dtype=torch.float32)
    ema = load(work / "unet.pt")["ema"]
    for name, value in model.state_dict().items():
        assert torch.allclose(value, ema[name], rtol=1e-3, atol=1e-6), name
    prompt = load_file(exported / "empty_prompt.safetensors")["empty_prompt"]
    with torch.no_grad():
        assert model(torch.randn(1, 16, 8, 8), 500, prompt).sample.isfinite().all()
    autoencoder, averaged = (
        PatchAutoencoder.from_folder(exported / "autoencoder"),
        load(work / "decoder.pt")["ema"],
    )
    for name, value in autoencoder.state_dict().items():
        assert torch.allclose(value, averaged[name], rtol=1e-3, atol=1e-6), name
    backbone = mast.load(exported)
    assert backbone.scheduler.config.prediction_type == "v_prediction"
    assert backbone.defaults == mast.load("preview").defaults


def test_an_export_may_lie_between_two_models(work: Path, exported: Path, tmp_path: Path) -> None:
    name, file = "conv_in.weight", "unet/diffusion_pytorch_model.safetensors"
    copy_training(work, tmp_path)
    state = load(tmp_path / "unet.pt")
    state["ema"][name] = state["ema"][name] + 1
    torch.save(state, tmp_path / "unet.pt")
    export.export(tmp_path, tmp_path / "out", exported, share=0.25)
    before, between = (load_file(folder / file)[name].float() for folder in (exported, tmp_path / "out"))
    torch.testing.assert_close(between, before + 0.25, atol=2e-3, rtol=0)
    with pytest.raises(ValueError, match="needs a model folder"):
        export.export(tmp_path, tmp_path / "out", share=0.25)


def test_an_export_can_be_trained_on(
    exported: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path
) -> None:
    """With VGG on decoded pictures, which needs the decoder of the export."""
    options = {"init": exported, "vgg": weights["vgg"], "shares": {"stylize": 1.0}}
    history = unet.train(images, tmp_path, Run(steps=1, decay=1), **options, **SMALL)
    state = load(tmp_path / "unet.pt")
    assert (state["step"], state["seen"]) == (11, 44)
    assert tuple(state["config"]["block_out_channels"]) == TINY["block_out_channels"]
    assert history.keys() == {"stylize", "style", "content"}


def test_stylize_paints_photos_in_the_style_of_paintings(
    work: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path, monkeypatch
) -> None:
    """Even rows are photos, odd ones paintings; with too few of a kind, any two different pictures."""
    copy_training(work, tmp_path)
    marked = [np.full((64, 64, 3), 10 * number, np.uint8) for number in range(6)]
    seen: list[list[int]] = []
    pairs = Objective.pairs

    def watched(self, mode, image, rng):
        seen.append([round((value + 1) * 127.5 / 10) for value in image[:, 0, 0, 0].tolist()])
        return pairs(self, mode, image, rng)

    monkeypatch.setattr(Objective, "pairs", watched)
    options = {"vgg": weights["vgg"], "shares": {"stylize": 1.0}, **SMALL}
    unet.train(marked, tmp_path, Run(steps=3), paintings=[False, True] * 3, **options)
    assert all(row % 2 == number % 2 for batch in seen for number, row in enumerate(batch))
    seen.clear()
    unet.train(marked, tmp_path, Run(steps=3), paintings=[False] * 6, **options)
    assert all(a != b for batch in seen for a, b in zip(batch[::2], batch[1::2], strict=True))


def test_half_the_bits_make_the_same_training(
    runs: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path
) -> None:
    """In bfloat16 losses are those of 32 bit but for three hundredths; weights and checkpoint stay in 32."""
    if not cpu_runs_bfloat16():
        pytest.skip("this CPU cannot compute in bfloat16")
    histories = []
    for half in (False, True):
        folder = tmp_path / str(half)
        folder.mkdir()
        copy_training(runs, folder)
        for mode in ("self", "restyle", "stylize", "policy"):
            histories.append(
                unet.train(
                    images,
                    folder,
                    Run(steps=1),
                    vgg=weights["vgg"],
                    policy=folder / "policy.pt",
                    shares={mode: 1.0},
                    half=half,
                    **SMALL,
                )
            )
        assert all(value.dtype == torch.float32 for value in load(folder / "unet.pt")["model"].values())
    for full, halved in zip(histories[:4], histories[4:], strict=True):
        for name, values in full.items():
            assert halved[name] == pytest.approx(values, rel=0.03), name


def test_a_cpu_without_bfloat16_trains_in_32_bit(monkeypatch, capsys) -> None:
    monkeypatch.setattr(precision, "cpu_runs_bfloat16", lambda: False)
    parser = argparse.ArgumentParser()
    precision.add_half_argument(parser)
    assert not precision.half_from(parser.parse_args(["--bfloat16"]))
    assert "training in 32 bit" in capsys.readouterr().out
    assert not precision.half_from(parser.parse_args([])) and not capsys.readouterr().out


def test_a_model_compared_with_itself(exported: Path, folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "0.png").write_bytes((folder / "0.png").read_bytes())
    compare.main([str(exported), str(exported), "--images", str(tmp_path), "--size", "64", "--steps", "3"])
    printed = capsys.readouterr().out
    assert printed.count("v-loss") == 10 and printed.count("0 of 1") == 13
    assert "3 plain, dB" in printed and "3 refined, dB" in printed
