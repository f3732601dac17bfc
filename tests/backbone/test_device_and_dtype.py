"""Devices and number formats: known ones work, others are refused, and no CPU is asked for what kills it."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch.utils._python_dispatch import TorchDispatchMode

import mast
from mast import InputError
from mast.backbone.device import autoencoder_dtype, resolve_device, resolve_dtype
from mast.backbone.load import settled

CPU = torch.device("cpu")


def test_auto_is_float32_on_a_cpu_and_float16_elsewhere():
    assert resolve_dtype("auto", CPU) == torch.float32
    assert resolve_dtype("auto", torch.device("cuda")) == torch.float16
    assert resolve_dtype("auto", torch.device("mps")) == torch.float16
    assert resolve_device("cpu") == CPU
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("device", ["tpu", "gpu", "", "cuda0"])
def test_an_unknown_device_is_refused_by_name(device):
    with pytest.raises(InputError, match=f"device '{device}'"):
        mast.load("preview", device=device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_not_there_is_refused(device):
    kind = device.split(":")[0]
    if (kind == "cuda" and torch.cuda.is_available()) or (
        kind == "mps" and torch.backends.mps.is_available()
    ):
        pytest.skip("this machine has one")
    with pytest.raises(InputError, match=f"device '{device}' is not available.*--device cpu"):
        mast.load("preview", device=device)


@pytest.mark.parametrize("device", ["cpu:x", "cuda:99"])
def test_a_malformed_device_is_an_input_error(device):
    with pytest.raises(InputError, match=device):
        mast.load("preview", device=device)


@pytest.mark.parametrize("dtype", ["int8", "half", "float64", ""])
def test_an_unknown_dtype_is_refused_by_name(dtype):
    with pytest.raises(InputError, match=f"dtype '{dtype}'"):
        mast.load("preview", device="cpu", dtype=dtype)


def test_float16_on_a_cpu_is_refused():
    with pytest.raises(InputError, match="float16 is for GPUs"):
        mast.load("preview", device="cpu", dtype="float16")


RUN = """
import sys, torch, mast
torch.set_num_threads(1)
try:
    backbone = mast.load(sys.argv[1], device="cpu", dtype="bfloat16")
except mast.InputError as error:
    print("refused", error)
    sys.exit()
assert backbone.dtype == torch.bfloat16
photo, style, mask = sys.argv[2:]
job = mast.Job(photo, (mast.Region(style, mask),))
print("done", mast.stylize(job, backbone, settings=mast.Settings(steps=2, size=64)).image.size)
"""


def test_bfloat16_on_a_cpu_works_or_is_refused_and_never_kills(
    tiny_sd_folder, tiny_backbone, pictures, tmp_path
):
    """In a process of its own, so that a CPU that dies of it would only fail this test."""
    model = shutil.copytree(tiny_sd_folder, tmp_path / "model")
    save_file({"empty_prompt": tiny_backbone.empty_prompt.clone()}, model / "empty_prompt.safetensors")
    given = [model, pictures["photo"], pictures["style_a"], pictures["left"]]
    ran = subprocess.run([sys.executable, "-c", RUN, *map(str, given)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(("done (64, 64)", "refused this CPU cannot compute in bfloat16"))


class Moves(TorchDispatchMode):
    """Watches tensors go from one device to another."""

    def __init__(self):
        super().__init__()
        self.dtypes, self.bytes = set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
        if given is not None and isinstance(made, torch.Tensor) and made.device != given.device:
            self.dtypes |= {given.dtype, made.dtype}
            self.bytes += given.nbytes
        return made


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_weights_are_cast_before_they_are_moved(tiny_sd_folder, dtype):
    """To torch's device without memory here, for want of a GPU; the copies are counted all the same."""
    unet = mast.load(tiny_sd_folder).unet
    numbers = sum(weight.numel() for weight in unet.parameters())
    with Moves() as moves:
        moved = settled(unet, torch.device("meta"), dtype)
    assert {(weight.device.type, weight.dtype) for weight in moved.parameters()} == {("meta", dtype)}
    assert moves.dtypes == {dtype} and moves.bytes == numbers * dtype.itemsize


@pytest.mark.parametrize(
    ("dtype", "device", "force_upcast", "expected"),
    [
        (torch.float32, "cpu", True, torch.float32),
        (torch.float16, "cuda", True, torch.float32),
        (torch.float16, "cuda", False, torch.float16),
        (torch.float16, "mps", True, torch.float32),
        (torch.float16, "mps", False, torch.float32),
        (torch.bfloat16, "cuda", True, torch.bfloat16),
    ],
)
def test_the_autoencoder_computes_in_float32_where_float16_is_unsafe(dtype, device, force_upcast, expected):
    assert autoencoder_dtype(dtype, torch.device(device), force_upcast) == expected


def test_beside_a_float16_unet_the_autoencoder_takes_and_gives_its_own_precision(tiny_sd_folder):
    plain = mast.load(tiny_sd_folder)
    image = torch.rand(1, 3, 64, 64) * 2 - 1
    latent, decoded = plain.encode(image), plain.decode(plain.encode(image))
    half = replace(
        plain, unet=settled(plain.unet, CPU, torch.float16), empty_prompt=plain.empty_prompt.half()
    )
    assert half.dtype == torch.float16 and half.autoencoder_dtype == torch.float32
    assert torch.equal(half.encode(image), latent) and torch.equal(half.decode(latent), decoded)
    with torch.inference_mode():
        assert half.predict(latent, 501).dtype == torch.float32


@pytest.mark.parametrize(
    ("sample_size", "size"), [(64, 512), (96, 768), (8, 64), ([8, 16], 128), (None, 512)]
)
def test_a_model_knows_the_size_it_is_at_home_with(tiny_sd_folder, tmp_path, sample_size, size):
    model = shutil.copytree(tiny_sd_folder, tmp_path / "model")
    config = json.loads((model / "unet" / "config.json").read_text())
    (model / "unet" / "config.json").write_text(json.dumps({**config, "sample_size": sample_size}))
    backbone = mast.load(model)
    assert backbone.native_size == size
    backbone.defaults["size"] = 320
    assert backbone.native_size == 320


def test_the_embedded_model_says_its_size_itself_and_is_calibrated(preview):
    assert preview.native_size == preview.defaults.get("size", 512) and preview.calibrated


@pytest.mark.parametrize(
    ("name", "calibrated"),
    [
        ("CompVis/stable-diffusion-v1-4", True),
        ("stable-diffusion-v1-5/stable-diffusion-v1-5", True),
        ("/models/sd-v1-4.ckpt", True),
        ("/models/v1-5-pruned-emaonly.safetensors", True),
        ("C:\\models\\stable-diffusion-v1-4\\", True),
        ("stabilityai/stable-diffusion-2-1-base", False),
        ("/models/mine", False),
    ],
)
def test_only_sd_1_and_models_with_coefficients_of_their_own_are_calibrated(tiny_backbone, name, calibrated):
    backbone = replace(tiny_backbone, name=name)
    assert backbone.calibrated is calibrated
    assert replace(backbone, defaults={"mast": {"tau": [0.1, 0.5, 1.0]}}).calibrated
    assert replace(backbone, defaults={"mast": {"lam": 0.5}}).calibrated is calibrated
