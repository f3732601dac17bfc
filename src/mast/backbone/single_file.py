"""An SD 1.x checkpoint in one .safetensors or .ckpt file: its layout is read from the weights' own shapes.

diffusers converts the weights; it would take the configs from the hub, so they are inferred here and
nothing is fetched.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..job import InputError
from .backbone import KLAutoencoder

UNET, VAE, CLIP = "model.diffusion_model.", "first_stage_model.", "cond_stage_model.transformer."


def from_single_file(path: Path) -> tuple[Any, Any, dict[str, Any], Tensor, dict[str, Any]]:
    """U-Net, autoencoder, scheduler config, empty prompt (1, tokens, channels) and (no) defaults."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint, convert_ldm_vae_checkpoint

    from .load import SD_SCHEDULER

    weights = _read(path)
    unet_config, vae_config = _unet_config(path, weights), _vae_config(path, weights)
    unet, vae = UNet2DConditionModel.from_config(unet_config), AutoencoderKL.from_config(vae_config)
    try:  # strictly: a weight that is missing must not be left at random
        unet.load_state_dict(convert_ldm_unet_checkpoint(dict(weights), unet_config))
        vae.load_state_dict(convert_ldm_vae_checkpoint(dict(weights), vae_config))
    except (ValueError, RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: its weights do not fit Stable Diffusion 1.x ({reason})") from error
    return unet, KLAutoencoder(vae), dict(SD_SCHEDULER), _empty_prompt(path, weights), {}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return state.get("state_dict", state)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError) as error:
        raise InputError(
            f"{path}: damaged or not a checkpoint ({str(error).splitlines()[0][:120]}); fetch it again"
        ) from error
    except Exception as error:  # the unpickler refuses anything but tensors
        raise InputError(
            f"{path}: holds more than tensors and is not opened for safety; convert it to .safetensors"
        ) from error


def _unet_config(path: Path, weights: dict[str, Tensor]) -> dict[str, Any]:
    def shape(name: str) -> tuple[int, ...]:
        if UNET + name not in weights:
            raise InputError(
                f"{path}: no {UNET + name} in this file; it is not a whole Stable Diffusion 1.x checkpoint"
            )
        return tuple(weights[UNET + name].shape)

    if any(key.startswith("conditioner.") for key in weights):
        raise InputError(f"{path}: this is an SDXL checkpoint; mast works with Stable Diffusion 1.x and 2.x")
    projection = shape("input_blocks.1.1.proj_in.weight")
    if len(projection) == 2:
        raise InputError(
            f"{path}: this is a Stable Diffusion 2.x file; convert it to a diffusers folder and give that "
            "to --model"
        )
    return {
        "_class_name": "UNet2DConditionModel",
        "in_channels": shape("input_blocks.0.0.weight")[1],
        "out_channels": shape("out.2.weight")[0],
        "block_out_channels": [
            shape(f"input_blocks.{1 + 3 * level}.0.out_layers.3.weight")[0] for level in range(4)
        ],
        "layers_per_block": 2,
        "cross_attention_dim": shape("input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight")[1],
        "attention_head_dim": 8,
        "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
        "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
        "sample_size": 64,
    }


def _vae_config(path: Path, weights: dict[str, Tensor]) -> dict[str, Any]:
    levels = 0
    while f"{VAE}encoder.down.{levels}.block.0.conv1.weight" in weights:
        levels += 1
    if levels == 0:
        raise InputError(
            f"{path}: no autoencoder ({VAE}encoder...) in this file; it is not a whole checkpoint"
        )
    widths = [weights[f"{VAE}encoder.down.{i}.block.0.conv1.weight"].shape[0] for i in range(levels)]
    return {
        "_class_name": "AutoencoderKL",
        "in_channels": 3,
        "out_channels": 3,
        "latent_channels": weights[f"{VAE}quant_conv.weight"].shape[0] // 2,
        "block_out_channels": widths,
        "layers_per_block": 2,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "scaling_factor": 0.18215,
    }


def _empty_prompt(path: Path, weights: dict[str, Tensor]) -> Tensor:
    """CLIP's answer to the empty prompt. Its tokens are known, begin and then end to the last place: no
    tokenizer needed.
    """
    beside = path.with_name("empty_prompt.safetensors")
    if beside.exists():
        return load_file(beside)["empty_prompt"].float()
    if find_spec("transformers") is None:
        raise InputError(f"{path}: its text encoder needs transformers: pip install 'mast[text]'")
    from transformers import CLIPTextConfig, CLIPTextModel

    own = {
        key.removeprefix(CLIP): value.float()
        for key, value in weights.items()
        if key.startswith(CLIP + "text_model.")
    }
    if not own:
        raise InputError(
            f"{path}: no text encoder ({CLIP}...) in this file; put empty_prompt.safetensors beside it"
        )
    vocabulary, hidden = own["text_model.embeddings.token_embedding.weight"].shape
    places = own["text_model.embeddings.position_embedding.weight"].shape[0]
    layers = 1 + max(int(key.split(".")[3]) for key in own if key.startswith("text_model.encoder.layers."))
    config = CLIPTextConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=own["text_model.encoder.layers.0.mlp.fc1.weight"].shape[0],
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        max_position_embeddings=places,
        bos_token_id=vocabulary - 2,
        eos_token_id=vocabulary - 1,
    )
    encoder = CLIPTextModel(config).eval()
    expected = set(encoder.state_dict())
    prefix = "" if any(key.startswith("text_model.") for key in expected) else "text_model."
    missing, _ = encoder.load_state_dict(
        {key.removeprefix(prefix): value for key, value in own.items()}, strict=False
    )
    if [key for key in missing if "position_ids" not in key]:
        raise InputError(f"{path}: the text encoder lacks {missing[0]}; the file is damaged")
    tokens = torch.full((1, places), vocabulary - 1)
    tokens[0, 0] = vocabulary - 2
    with torch.inference_mode():
        return encoder(tokens).last_hidden_state.clone()
