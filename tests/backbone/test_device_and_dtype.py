"""Devices and number formats: known ones work, others are refused, and no CPU is asked for what kills it."""

import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

import mast
from mast import InputError
from mast.backbone.device import resolve_device, resolve_dtype

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
