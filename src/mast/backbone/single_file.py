"""An SD 1.x checkpoint in one .safetensors or .ckpt file: its layout is read from the weights' own shapes.

diffusers converts the weights; it would take the configs from the hub, so they are inferred here and nothing
is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..job import InputError
from .backbone import KLAutoencoder
from .ckpt import read_ckpt
from .configs import SD_SCHEDULER, check_scheduler, check_text_encoder, check_unet, check_vae
from .parts import Parts, filled, first_line, read_tensors
from .rules import Config
from .text import STORED, answer, stored_prompt

UNET, VAE, CLIP = "model.diffusion_model.", "first_stage_model.", "cond_stage_model.transformer."
AVERAGED = "model_ema."


def from_single_file(path: Path) -> Parts:
    """All parts of an SD 1.x checkpoint; an empty_prompt.safetensors beside it replaces its text encoder."""
    weights = read_tensors(path) if path.suffix == ".safetensors" else read_ckpt(path)
    weights = with_averages(path, weights)
    unet_config, vae_config = _unet_config(path, weights), _vae_config(path, weights)
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint, convert_ldm_vae_checkpoint

    def part(kind: Any, convert: Callable[..., Any], config: Config) -> Any:
        try:
            own = convert(dict(weights), dict(config))
        except Exception as error:  # whatever the converter stumbles over
            raise InputError(
                f"{path}: its weights do not fit Stable Diffusion 1.x ({first_line(error)})"
            ) from error
        return filled(
            lambda: kind.from_config(config), own, path, "Stable Diffusion 1.x, its weights do not fit"
        )

    unet = part(UNet2DConditionModel, convert_ldm_unet_checkpoint, unet_config)
    vae = part(AutoencoderKL, convert_ldm_vae_checkpoint, vae_config)
    scheduler = check_scheduler(path, SD_SCHEDULER)
    return Parts(unet, KLAutoencoder(vae), scheduler, _empty_prompt(path, weights), {})


def with_averages(path: Path, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The U-Net's weights averaged over its training, where the file has both these and the last ones.

    They are called model_ema. and the name without its dots, and make the better pictures: they are what the
    smaller of the published files contain.
    """
    averaged = {
        name: AVERAGED + name.removeprefix("model.").replace(".", "")
        for name in weights
        if name.startswith(UNET)
    }
    there = [name for name in averaged.values() if name in weights]
    if there and len(there) < len(averaged):
        lacking = next(name for name in averaged.values() if name not in weights)
        raise InputError(f"{path}: its averaged weights are not whole, {lacking} is missing; fetch it again")
    return weights | {name: weights[other] for name, other in averaged.items()} if there else weights


def _shape(path: Path, weights: Mapping[str, Tensor], name: str, least: int = 1) -> tuple[int, ...]:
    """A tensor's shape, of at least so many sides."""
    if name not in weights:
        raise InputError(f"{path}: no {name} in this file; it is not a whole Stable Diffusion 1.x checkpoint")
    shape = tuple(weights[name].shape)
    if len(shape) < least:
        raise InputError(
            f"{path}: {name} has the shape {shape}, which is not Stable Diffusion's; fetch it again"
        )
    return shape


def _unet_config(path: Path, weights: Mapping[str, Tensor]) -> Config:
    def shape(name: str) -> tuple[int, ...]:
        return _shape(path, weights, UNET + name, 2)

    if any(key.startswith("conditioner.") for key in weights):
        raise InputError(f"{path}: this is an SDXL checkpoint; mast works with Stable Diffusion 1.x and 2.x")
    if len(shape("input_blocks.1.1.proj_in.weight")) == 2:
        raise InputError(
            f"{path}: this is a Stable Diffusion 2.x file; convert it to a diffusers folder and give that "
            "to --model"
        )
    given = {
        "in_channels": shape("input_blocks.0.0.weight")[1],
        "out_channels": shape("out.2.weight")[0],
        "block_out_channels": [
            shape(f"input_blocks.{1 + 3 * level}.0.out_layers.3.weight")[0] for level in range(4)
        ],
        "cross_attention_dim": shape("input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight")[1],
        "sample_size": 64,
    }
    return check_unet(path, given)


def _vae_config(path: Path, weights: Mapping[str, Tensor]) -> Config:
    levels = 0
    while f"{VAE}encoder.down.{levels}.block.0.conv1.weight" in weights:
        levels += 1
    if levels == 0:
        raise InputError(
            f"{path}: no autoencoder ({VAE}encoder...) in this file; it is not a whole checkpoint"
        )
    given = {
        "latent_channels": _shape(path, weights, f"{VAE}quant_conv.weight")[0] // 2,
        "block_out_channels": [
            _shape(path, weights, f"{VAE}encoder.down.{i}.block.0.conv1.weight")[0] for i in range(levels)
        ],
        "layers_per_block": 2,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
    }
    return check_vae(path, given)


def _empty_prompt(path: Path, weights: Mapping[str, Tensor]) -> Tensor:
    """CLIP's answer to the empty prompt, (1, tokens, channels).

    Its tokens are known, begin and then end to the last place: no tokenizer is needed.
    """
    beside = path.with_name(STORED)
    if beside.exists():
        return stored_prompt(beside)
    own = {name.removeprefix(CLIP): value for name, value in weights.items() if name.startswith(CLIP)}
    layers = [name.split(".")[3] for name in own if name.startswith("text_model.encoder.layers.")]
    if not layers:
        raise InputError(f"{path}: no text encoder ({CLIP}...) in this file; put {STORED} beside it")

    def side(name: str, axis: int) -> int:
        return _shape(path, weights, f"{CLIP}text_model.{name}", 2)[axis]

    words, width = (side("embeddings.token_embedding.weight", axis) for axis in (0, 1))
    given = {
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": side("encoder.layers.0.mlp.fc1.weight", 0),
        "num_hidden_layers": len(set(layers)),
        "num_attention_heads": max(1, width // 64),
        "max_position_embeddings": side("embeddings.position_embedding.weight", 0),
    }
    config = check_text_encoder(path, given)
    tokens = [words - 2] + [words - 1] * (config["max_position_embeddings"] - 1)
    return answer(config, tokens, own, path)
