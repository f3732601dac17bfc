"""The U-Net of a training: its checkpoint, its averaged weights, and the model that it is at the moment."""

import json
from pathlib import Path
from typing import Any

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.schedulers.scheduling_ddim import DDIMScheduler

from mast.backbone.backbone import Backbone
from mast.backbone.load import PREVIEW
from training.autoencoder import trained_autoencoder
from training.diffusion import SCHEDULE, empty_prompt
from training.run import load

# Stable Diffusion 1.x' topology at a fifth of its width, so that the controlled layers have the same names.
CONFIG: dict[str, Any] = {
    "sample_size": 64,
    "in_channels": 16,
    "out_channels": 16,
    "layers_per_block": 2,
    "block_out_channels": (64, 128, 192, 192),
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
    "cross_attention_dim": 32,
    "attention_head_dim": 4,
    "norm_num_groups": 16,
}


def open_state(work: Path, init: Path | None, config: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint WORK/unet.pt, else one made of the folder `init`, else an empty one for `config`.

    Its keys: model, optimizer, ema, step, seen, config.
    """
    if (work / "unet.pt").exists():
        return load(work / "unet.pt")
    state: dict[str, Any] = {
        "model": None,
        "optimizer": None,
        "ema": None,
        "step": 0,
        "seen": 0,
        "config": config,
    }
    if init:
        unet = exported_unet(init)
        progress = json.loads((init / "training.json").read_text())
        state |= {"model": unet.state_dict(), "step": progress["step"], "seen": progress["seen"]}
        state["config"] = {name: unet.config[name] for name in CONFIG}
    return state


def exported_unet(folder: Path) -> UNet2DConditionModel:
    """The U-Net of a model folder, in 32 bit."""
    return (
        UNet2DConditionModel.from_pretrained(folder / "unet", torch_dtype=torch.float32)
        .eval()
        .requires_grad_(False)
    )


def averaged_unet(work: Path, init: Path | None = None) -> tuple[UNet2DConditionModel, dict[str, int]]:
    """The U-Net to use: with the averaged weights of WORK/unet.pt, else that of the folder `init`; and how
    many steps and pictures it has seen.
    """
    if (work / "unet.pt").exists():
        state = load(work / "unet.pt")
        unet = UNet2DConditionModel(**state["config"])
        unet.load_state_dict(state["ema"])
    elif init:
        unet, state = exported_unet(init), json.loads((init / "training.json").read_text())
    else:
        raise FileNotFoundError(f"there is no {work / 'unet.pt'}: train a U-Net, or name a model folder")
    return unet.eval().requires_grad_(False), {name: state[name] for name in ("step", "seen")}


def model_defaults(init: Path | None) -> dict[str, Any]:
    """The defaults.json of a model folder; where it has none, the embedded model's."""
    for folder in (init, PREVIEW):
        if folder and (folder / "defaults.json").exists():
            return json.loads((folder / "defaults.json").read_text())
    return {}


def current_backbone(work: Path, init: Path | None) -> tuple[Backbone, int]:
    """The model as it would be exported now, in memory and in 32 bit; and its step."""
    unet, progress = averaged_unet(work, init)
    autoencoder, _ = trained_autoencoder(work, init)
    modules: list[Any] = [unet, autoencoder]
    for module in modules:
        module.to(memory_format=torch.channels_last)
    backbone = Backbone(
        name=str(work),
        unet=unet,
        autoencoder=autoencoder,
        scheduler=DDIMScheduler(**SCHEDULE),
        empty_prompt=empty_prompt(unet, 1),
        defaults=model_defaults(init),
        trusted=True,
    )
    return backbone, progress["step"]
