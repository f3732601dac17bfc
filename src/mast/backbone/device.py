"""Where and in what precision to compute: float32 on CPUs, float16 on GPUs, nothing that kills a process."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

import torch

from ..job import InputError


def resolve_device(device: str) -> torch.device:
    """auto: cuda, else mps, else cpu."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if available[name]))
    kind = device.split(":")[0]
    if kind not in available:
        raise InputError(f"device {device!r} is not known; choose auto, cpu, cuda or mps")
    if not available[kind]:
        raise InputError(f"device {device!r} is not available on this machine; use --device cpu")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device {device!r} is not known; choose auto, cpu, cuda or mps") from error
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {device!r} is not available; there are {torch.cuda.device_count()} GPUs")
    return place


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """auto: float32 on a CPU, float16 elsewhere."""
    kinds = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.float16
    if dtype not in kinds:
        raise InputError(f"dtype {dtype!r} is not known; choose auto, {', '.join(kinds)}")
    if device.type == "cpu" and dtype == "float16":
        raise InputError("float16 is for GPUs; on a CPU use --dtype float32")
    if device.type == "cpu" and dtype == "bfloat16" and not cpu_runs_bfloat16():
        raise InputError(
            "this CPU cannot compute in bfloat16 (a trial in a separate process failed); use --dtype float32"
        )
    return kinds[dtype]


def autoencoder_dtype(dtype: torch.dtype, device: torch.device, force_upcast: bool = True) -> torch.dtype:
    """What the autoencoder computes in beside a U-Net of this dtype.

    Stable Diffusion's autoencoder can overflow in float16 and give NaN. It runs once per picture, so float32
    costs little. force_upcast: false in the config of autoencoders that were made safe for float16.
    """
    if dtype == torch.float16 and (force_upcast or device.type == "mps"):
        return torch.float32
    return dtype


@lru_cache
def cpu_runs_bfloat16() -> bool:
    """Tries bfloat16 in a process of its own: some CPUs advertise it and die of SIGILL."""
    trial = (
        "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a; "
        "torch.nn.functional.conv2d(a.view(1, 4, 32, 32), torch.ones(4, 4, 3, 3, dtype=torch.bfloat16))"
    )
    return subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode == 0
