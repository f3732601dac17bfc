"""`load`: the embedded model, a hub id, a diffusers folder or one checkpoint file becomes a `Backbone`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from ..core.ddim import PREDICTION_TYPES
from ..job import InputError
from .backbone import Backbone, KLAutoencoder
from .configs import SD_SCHEDULER, check_scheduler, read_defaults, read_object, read_unet, read_vae
from .device import autoencoder_dtype, resolve_device, resolve_dtype
from .hub import PARTS, fetch, is_hub_id
from .parts import Parts, filled, first_line, read_weights
from .preview.autoencoder import PatchAutoencoder
from .rules import Config
from .single_file import from_single_file
from .sites import sites_for
from .text import prompt_of_folder

PREVIEW = Path(__file__).parent / "preview" / "model"


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
    allow_download: bool = True,
) -> Backbone:
    """Loads a frozen backbone.

    name: "preview", a hub id ("CompVis/stable-diffusion-v1-4"), a diffusers folder, or an SD 1.x .safetensors
    or .ckpt file.
    device: auto, cpu, cuda, mps.
    dtype: auto (float32 on a CPU, float16 elsewhere), float32, float16, bfloat16.
    prediction_type: overrides what the model's scheduler config says.
    allow_download: False takes a hub id from the local cache or not at all; for names somebody else chose.
    """
    place = resolve_device(device)
    kind = resolve_dtype(dtype, place)
    if prediction_type is not None and prediction_type not in PREDICTION_TYPES:
        known = ", ".join(PREDICTION_TYPES)
        raise InputError(f"prediction type {prediction_type!r} is not known; choose one of {known}")
    text = str(name)
    parts = _find(text, allow_download)
    _check(text, parts)
    scheduler = parts.scheduler
    if prediction_type is not None:
        scheduler = Config(scheduler, prediction_type=prediction_type)
    upcast = getattr(getattr(parts.autoencoder, "vae", None), "config", {}).get("force_upcast", True)
    backbone = Backbone(
        name=text,
        unet=settled(parts.unet, place, kind),
        autoencoder=settled(parts.autoencoder, place, autoencoder_dtype(kind, place, upcast)),
        scheduler=SimpleNamespace(config=scheduler),
        empty_prompt=parts.prompt.to(place, kind),
        defaults=parts.defaults,
        trusted=text == "preview" and prediction_type is None,
    )
    try:
        backbone.schedule(2)  # an unknown noise schedule is refused now, not after minutes of work
    except ValueError as error:
        raise InputError(f"{text}: its scheduler config cannot be used: {error}") from error
    return backbone


def _find(text: str, allow_download: bool) -> Parts:
    path = Path(text)
    try:
        if text == "preview":
            return from_folder(PREVIEW)
        if text and path.is_dir():
            return from_folder(path)
        if path.is_file():
            return from_single_file(path)
        if is_hub_id(text):
            return from_folder(fetch(text, allow_download))
    except InputError:
        raise
    except (OSError, ValueError) as error:  # no right to read it, a name that no file can have
        raise InputError(f"{text[:200]!r}: cannot be read as a model ({first_line(error)})") from error
    raise InputError(
        f"{text[:200]}: no such model; give 'preview', a folder, a .safetensors file or a hub id like "
        f"{KNOWN[1].name}"
    )


def from_folder(folder: Path) -> Parts:
    """unet/, vae/ or our own autoencoder/, scheduler/, and what `text.prompt_of_folder` looks for."""
    if not (folder / "unet" / "config.json").exists():
        raise InputError(
            f"{folder}: no unet/config.json in this folder; give a diffusers model folder "
            "(save_pretrained makes one)"
        )
    ours = (folder / "autoencoder" / "patch_autoencoder.safetensors").exists()
    if not ours and not (folder / "vae" / "config.json").exists():
        raise InputError(f"{folder}: no vae/config.json in this folder; the model's autoencoder is missing")
    # Everything small first: what can be refused is refused before gigabytes are read.
    config = read_unet(folder / "unet" / "config.json")
    scheduler = scheduler_of(folder / "scheduler" / "scheduler_config.json")
    defaults = read_defaults(folder / "defaults.json")
    prompt = prompt_of_folder(folder)
    autoencoder: Any = (
        PatchAutoencoder.from_folder(folder / "autoencoder") if ours else _kl_autoencoder(folder / "vae")
    )
    weights = read_weights(folder / "unet", PARTS["unet"])
    unet = filled(lambda: unet_class(ours)(config), weights, folder / "unet", "the U-Net of its config")
    return Parts(unet, autoencoder, scheduler, prompt, defaults)


def unet_class(plain: bool) -> Any:
    """What makes a U-Net of a config: for our own models our own class, which needs no diffusers."""
    if plain:
        from .unet import SDUNet

        return SDUNet
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel.from_config


def _kl_autoencoder(folder: Path) -> KLAutoencoder:
    from diffusers import AutoencoderKL

    config = read_vae(folder / "config.json")
    # As Stable Diffusion 1.x was published, before diffusers renamed these layers.
    renamed = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
    weights = {
        re.sub(
            r"(mid_block\.attentions\.0)\.(query|key|value|proj_attn)\.",
            lambda match: f"{match[1]}.{renamed[match[2]]}.",
            name,
        ): value
        for name, value in read_weights(folder, PARTS["vae"]).items()
    }
    what = "the autoencoder of its config"
    return KLAutoencoder(filled(lambda: AutoencoderKL.from_config(config), weights, folder, what))


def scheduler_of(path: Path) -> Config:
    """A folder's scheduler config; without one Stable Diffusion's, whose prediction type a run checks."""
    return check_scheduler(path, read_object(path) if path.exists() else SD_SCHEDULER)


# What the first layer of Stable Diffusion's relatives is fed beside the latent.
RELATIVES = {
    5: "Stable Diffusion with a depth map",
    7: "an upscaler, fed a small picture",
    8: "a model that edits a picture by instruction",
    9: "an inpainting model, fed a mask and a masked picture",
}


def _check(name: str, parts: Parts) -> None:
    """Refuses parts that are not of one model, in words."""
    sites_for(parts.unet)
    config = parts.unet.config
    vae = getattr(parts.autoencoder, "vae", None)
    latent = vae.config["latent_channels"] if vae is not None else parts.autoencoder.channels
    if config["in_channels"] != latent or config["out_channels"] != latent:
        relative = RELATIVES.get(config["in_channels"]) if latent == 4 else None
        raise InputError(
            f"{name}: the U-Net takes {config['in_channels']} channels and gives {config['out_channels']}, "
            f"the autoencoder's latents have {latent}; "
            + (
                f"this is {relative}, which mast cannot use: take the plain model"
                if relative
                else "U-Net and autoencoder are not of one model"
            )
        )
    if parts.prompt.shape[-1] != config["cross_attention_dim"]:
        raise InputError(
            f"{name}: the empty prompt has {parts.prompt.shape[-1]} channels, the U-Net expects "
            f"{config['cross_attention_dim']}; text encoder and U-Net are not of one model"
        )


def settled(module: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Frozen, on its device; cast first, so that a GPU never holds more than it will use.

    channels_last makes convolutions on CPUs faster.
    """
    module = module.eval().requires_grad_(False)
    # torch's own `to`: diffusers' warns of layers to be kept in float32, of which these models have none.
    module = nn.Module.to(nn.Module.to(module, dtype), device)
    return module.to(memory_format=torch.channels_last) if device.type == "cpu" else module
