"""`load`: the embedded model, a hub id, a diffusers folder or one checkpoint file becomes a `Backbone`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..core.ddim import PREDICTION_TYPES
from ..job import InputError
from .backbone import Backbone, KLAutoencoder
from .device import resolve_device, resolve_dtype
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
        if prediction_type not in PREDICTION_TYPES:
            known = ", ".join(PREDICTION_TYPES)
            raise InputError(f"prediction type {prediction_type!r} is not known; choose one of {known}")
        scheduler = {**scheduler, "prediction_type": prediction_type}
    from diffusers import DDIMScheduler

    backbone = Backbone(
        name=text,
        unet=_settle(unet, place, kind),
        autoencoder=_settle(autoencoder, place, kind),
        scheduler=DDIMScheduler.from_config({k: v for k, v in scheduler.items() if k != "skip_prk_steps"}),
        empty_prompt=prompt.to(place, kind),
        defaults=defaults,
        trusted=text == "preview" and prediction_type is None,
    )
    sites_for(unet)
    if prompt.shape[-1] != unet.config.cross_attention_dim:
        raise InputError(
            f"{text}: the empty prompt has {prompt.shape[-1]} channels, the U-Net expects "
            f"{unet.config.cross_attention_dim}; "
            "text encoder and U-Net are not of one model"
        )
    try:
        backbone.schedule(2)  # an unknown noise schedule is refused now, not after minutes of work
    except ValueError as error:
        raise InputError(f"{text}: its scheduler config cannot be used: {error}") from error
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
        # Said outright, so that diffusers does not warn where accelerate is not installed.
        how = {
            "torch_dtype": torch.float32,
            "local_files_only": True,
            "low_cpu_mem_usage": _has("accelerate"),
        }
        unet = _whole(UNet2DConditionModel, folder / "unet", how)
        autoencoder: Any
        if patch.exists():
            autoencoder = PatchAutoencoder.from_folder(patch.parent)
        else:
            autoencoder = KLAutoencoder(_whole(AutoencoderKL, folder / "vae", how))
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{folder}: the model cannot be read ({_first_line(error)}); fetch it again"
        ) from error
    return unet, autoencoder, _scheduler(folder), _empty_prompt(folder), _json(folder / "defaults.json", {})


def _whole(kind: Any, folder: Path, how: dict[str, Any]) -> Any:
    """diffusers fills weights that a file lacks with noise and a warning; here that is an error."""
    model, info = kind.from_pretrained(folder, output_loading_info=True, **how)
    if info["missing_keys"]:
        raise ValueError(f"{folder.name}/ lacks the weights {min(info['missing_keys'])}")
    return model


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
        return read_prompt(stored)
    if not (folder / "text_encoder" / "config.json").exists():
        raise InputError(
            f"{folder}: neither text_encoder/ nor empty_prompt.safetensors in this folder; the U-Net "
            "needs one of them"
        )
    if not _has("transformers"):
        raise InputError(
            f"{folder}: its text encoder needs transformers: pip install 'mast[text]' "
            "(or put the embedding of the empty prompt beside it as empty_prompt.safetensors)"
        )
    from transformers import CLIPTextModel, CLIPTokenizer

    if not (folder / "tokenizer").is_dir():
        raise InputError(f"{folder}: no tokenizer/ in this folder; the text encoder needs it")
    try:
        encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", local_files_only=True).float().eval()
        tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{folder}: the text encoder cannot be read ({_first_line(error)}); fetch it again"
        ) from error
    tokens = tokenizer(
        "", padding="max_length", max_length=tokenizer.model_max_length, truncation=True, return_tensors="pt"
    )
    with torch.inference_mode():
        return encoder(tokens.input_ids).last_hidden_state.clone()


def read_prompt(path: Path) -> Tensor:
    """A stored embedding of the empty prompt, (1, tokens, channels)."""
    try:
        return load_file(path)["empty_prompt"].float()
    except (OSError, KeyError, SafetensorError) as error:
        raise InputError(f"{path}: no stored empty prompt ({_first_line(error)}); fetch it again") from error


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


def _has(package: str) -> bool:
    return find_spec(package) is not None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
