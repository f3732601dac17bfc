"""`load`: the embedded model, a hub id, a diffusers folder or one checkpoint file becomes a `Backbone`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..job import InputError
from .backbone import Backbone, KLAutoencoder
from .preview.autoencoder import PatchAutoencoder
from .sites import sites_for

PREVIEW = Path(__file__).parent / "preview" / "model"
SD_SCHEDULER = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "prediction_type": "epsilon",
}
HUB_FILES = [
    "*.json",
    "*.txt",
    "unet/*.safetensors",
    "vae/*.safetensors",
    "text_encoder/*.safetensors",
    "empty_prompt.safetensors",
]


@dataclass(frozen=True)
class KnownModel:
    """A line of `mast models`."""

    name: str
    licence: str
    about: str


KNOWN = (
    KnownModel(
        "preview",
        "MIT (weights: see docs/preview-model.md)",
        "the embedded model; no download, made for CPUs",
    ),
    KnownModel("CompVis/stable-diffusion-v1-4", "CreativeML OpenRAIL-M", "the paper's model"),
    KnownModel(
        "stable-diffusion-v1-5/stable-diffusion-v1-5", "CreativeML OpenRAIL-M", "same layout, trained longer"
    ),
    KnownModel("stabilityai/stable-diffusion-2-1-base", "CreativeML Open RAIL++-M", "SD 2.x at 512 px"),
)


def load(
    name: str | os.PathLike[str] = "preview",
    device: str = "auto",
    dtype: str = "auto",
    prediction_type: str | None = None,
) -> Backbone:
    """Loads a frozen backbone.

    name: "preview", a hub id ("CompVis/stable-diffusion-v1-4"), a diffusers folder, or an SD 1.x
    .safetensors/.ckpt file.
    device: auto, cpu, cuda, mps. dtype: auto (float32 on a CPU, float16 elsewhere), float32, float16,
    bfloat16.
    prediction_type: overrides what the model's scheduler config says.
    """
    place = resolve_device(device)
    kind = resolve_dtype(dtype, place)
    text, path = str(name), Path(name)
    if text == "preview":
        parts = _from_folder(PREVIEW)
    elif path.is_dir():
        parts = _from_folder(path)
    elif path.is_file():
        from .single_file import from_single_file

        parts = from_single_file(path)
    elif (
        text.count("/") == 1
        and not text.startswith((".", "/", "~"))
        and path.suffix not in (".safetensors", ".ckpt")
    ):
        parts = _from_folder(_fetch(text))
    else:
        raise InputError(
            f"{text}: no such model; give 'preview', a folder, a .safetensors file or a hub id like "
            f"{KNOWN[1].name}"
        )
    unet, autoencoder, scheduler, prompt, defaults = parts
    if prediction_type is not None:
        scheduler = {**scheduler, "prediction_type": prediction_type}
    from diffusers import DDIMScheduler

    backbone = Backbone(
        name=text,
        unet=_settle(unet, place, kind),
        autoencoder=_settle(autoencoder, place, kind),
        scheduler=DDIMScheduler.from_config({k: v for k, v in scheduler.items() if k != "skip_prk_steps"}),
        empty_prompt=prompt.to(place, kind),
        defaults=defaults,
        trusted=text == "preview",
    )
    sites_for(unet)
    if prompt.shape[-1] != unet.config.cross_attention_dim:
        raise InputError(
            f"{text}: the empty prompt has {prompt.shape[-1]} channels, the U-Net expects "
            f"{unet.config.cross_attention_dim}; "
            "text encoder and U-Net are not of one model"
        )
    backbone.schedule(2)  # an unknown spacing or prediction type is refused now, not after minutes of work
    return backbone


Parts = tuple[Any, Any, dict[str, Any], Tensor, dict[str, Any]]


def _from_folder(folder: Path) -> Parts:
    """unet/, vae/ (or our autoencoder/), scheduler/, text_encoder/ and tokenizer/ or
    empty_prompt.safetensors.
    """
    from diffusers import AutoencoderKL, UNet2DConditionModel

    if not (folder / "unet" / "config.json").exists():
        raise InputError(
            f"{folder}: no unet/config.json in this folder; give a diffusers model folder "
            "(save_pretrained makes one)"
        )
    patch = folder / "autoencoder" / "patch_autoencoder.safetensors"
    if not patch.exists() and not (folder / "vae" / "config.json").exists():
        raise InputError(f"{folder}: no vae/config.json in this folder; the model's autoencoder is missing")
    try:
        unet = UNet2DConditionModel.from_pretrained(
            folder / "unet", torch_dtype=torch.float32, local_files_only=True
        )
        autoencoder: Any
        if patch.exists():
            autoencoder = PatchAutoencoder.from_folder(patch.parent)
        else:
            autoencoder = KLAutoencoder(
                AutoencoderKL.from_pretrained(
                    folder / "vae", torch_dtype=torch.float32, local_files_only=True
                )
            )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(
            f"{folder}: the model cannot be read ({_first_line(error)}); fetch it again"
        ) from error
    return unet, autoencoder, _scheduler(folder), _empty_prompt(folder), _json(folder / "defaults.json", {})


def _scheduler(folder: Path) -> dict[str, Any]:
    """The folder's scheduler config; without one Stable Diffusion's, whose prediction type the first run
    then checks.
    """
    return _json(folder / "scheduler" / "scheduler_config.json", SD_SCHEDULER)


def _json(path: Path, otherwise: dict[str, Any]) -> dict[str, Any]:
    if not path.exists():
        return dict(otherwise)
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not readable as JSON ({error}); fetch the file again") from error


def _empty_prompt(folder: Path) -> Tensor:
    """The text encoder's answer to "", (1, tokens, channels); from a stored file where there is one."""
    stored = folder / "empty_prompt.safetensors"
    if stored.exists():
        return load_file(stored)["empty_prompt"].float()
    if not (folder / "text_encoder" / "config.json").exists():
        raise InputError(
            f"{folder}: neither text_encoder/ nor empty_prompt.safetensors in this folder; the U-Net "
            "needs one of them"
        )
    if find_spec("transformers") is None:
        raise InputError(
            f"{folder}: its text encoder needs transformers: pip install 'mast[text]' "
            "(or put the embedding of the empty prompt beside it as empty_prompt.safetensors)"
        )
    from transformers import CLIPTextModel, CLIPTokenizer

    encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", local_files_only=True).float().eval()
    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    tokens = tokenizer(
        "", padding="max_length", max_length=tokenizer.model_max_length, truncation=True, return_tensors="pt"
    )
    with torch.inference_mode():
        return encoder(tokens.input_ids).last_hidden_state.clone()


def _fetch(name: str) -> Path:
    """A hub model's local folder, downloaded on first use."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES, local_files_only=True))
    except Exception:  # not cached yet: whatever the reason, ask the hub
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except Exception as error:
        raise InputError(
            f"{name}: not cached and the hub cannot be reached ({type(error).__name__}); fetch it once "
            "where there is a network "
            f"(huggingface-cli download {name}), or give a local folder or .safetensors file with --model"
        ) from error


def _settle(module: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Frozen, on its device; channels_last makes convolutions on CPUs faster."""
    module = module.eval().requires_grad_(False).to(device)
    if dtype != torch.float32:
        module = module.to(dtype)
    return module.to(memory_format=torch.channels_last) if device.type == "cpu" else module


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
    return torch.device(device)


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


@lru_cache
def cpu_runs_bfloat16() -> bool:
    """Tries a bfloat16 product and convolution in a process of its own: some CPUs advertise it and die of
    SIGILL.
    """
    trial = (
        "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a; "
        "torch.nn.functional.conv2d(a.view(1, 4, 32, 32), torch.ones(4, 4, 3, 3, dtype=torch.bfloat16))"
    )
    return subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode == 0


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
