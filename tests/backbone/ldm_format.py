"""The names of the original Stable Diffusion 1.x checkpoints for the weights of diffusers' models.

Written from the layout of the original code (4 levels, 2 layers), independently of diffusers' own converter,
which reads what this writes.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def unet_name(name: str) -> str:
    """down_blocks.1.resnets.0.conv1.weight -> input_blocks.4.0.in_layers.2.weight, and so on."""
    simple = {
        "conv_in.": "input_blocks.0.0.",
        "time_embedding.linear_1.": "time_embed.0.",
        "time_embedding.linear_2.": "time_embed.2.",
        "conv_norm_out.": "out.0.",
        "conv_out.": "out.2.",
    }
    for start, other in simple.items():
        if name.startswith(start):
            return other + name.removeprefix(start)
    if match := re.match(r"(down|up)_blocks\.(\d)\.(resnets|attentions)\.(\d)\.(.*)", name):
        way, block, kind, layer, rest = match.groups()
        place = 3 * int(block) + int(layer) + (1 if way == "down" else 0)
        side = "input" if way == "down" else "output"
        return f"{side}_blocks.{place}." + (f"0.{_resnet(rest)}" if kind == "resnets" else f"1.{rest}")
    if match := re.match(r"down_blocks\.(\d)\.downsamplers\.0\.conv\.(.*)", name):
        return f"input_blocks.{3 * int(match[1]) + 3}.0.op.{match[2]}"
    if match := re.match(r"up_blocks\.(\d)\.upsamplers\.0\.conv\.(.*)", name):
        # The first decoder level has no attention, so its upsampler comes second there and third elsewhere.
        return f"output_blocks.{3 * int(match[1]) + 2}.{1 if match[1] == '0' else 2}.conv.{match[2]}"
    if match := re.match(r"mid_block\.resnets\.(\d)\.(.*)", name):
        return f"middle_block.{2 * int(match[1])}.{_resnet(match[2])}"
    if match := re.match(r"mid_block\.attentions\.0\.(.*)", name):
        return f"middle_block.1.{match[1]}"
    raise KeyError(name)


def _resnet(rest: str) -> str:
    part, leaf = rest.rsplit(".", 1)
    return f"{RESNET[part]}.{leaf}"


def vae_name(name: str, levels: int = 4) -> str:
    """encoder.down_blocks.0.resnets.1.conv1.weight -> encoder.down.0.block.1.conv1.weight, and so on."""
    name = name.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
    if match := re.match(r"encoder\.down_blocks\.(\d)\.(.*)", name):
        return f"encoder.down.{match[1]}.{_vae_level(match[2])}"
    if match := re.match(r"decoder\.up_blocks\.(\d)\.(.*)", name):
        return f"decoder.up.{levels - 1 - int(match[1])}.{_vae_level(match[2])}"
    if match := re.match(r"(encoder|decoder)\.mid_block\.resnets\.(\d)\.(.*)", name):
        return f"{match[1]}.mid.block_{int(match[2]) + 1}.{match[3]}"
    if match := re.match(r"(encoder|decoder)\.mid_block\.attentions\.0\.(.*)\.(weight|bias)", name):
        return f"{match[1]}.mid.attn_1.{VAE_ATTENTION[match[2]]}.{match[3]}"
    return name


def _vae_level(rest: str) -> str:
    rest = re.sub(r"^resnets\.", "block.", rest)
    return re.sub(r"^(down|up)samplers\.0\.", r"\1sample.", rest)


def to_ldm(
    unet: torch.nn.Module, vae: torch.nn.Module, text_encoder: torch.nn.Module | None
) -> dict[str, Tensor]:
    """One state dict of model.diffusion_model., first_stage_model. and cond_stage_model.transformer."""
    state = {f"model.diffusion_model.{unet_name(name)}": value for name, value in unet.state_dict().items()}
    for name, value in vae.state_dict().items():
        other = vae_name(name)
        if ".attn_1." in other and other.endswith("weight") and value.dim() == 2:
            value = value[:, :, None, None]  # its projections were 1x1 convolutions
        state[f"first_stage_model.{other}"] = value
    for name, value in (text_encoder.state_dict() if text_encoder is not None else {}).items():
        state[f"cond_stage_model.transformer.text_model.{name.removeprefix('text_model.')}"] = value
    if text_encoder is not None:
        places = len(state["cond_stage_model.transformer.text_model.embeddings.position_embedding.weight"])
        state["cond_stage_model.transformer.text_model.embeddings.position_ids"] = torch.arange(places)[None]
    state["alphas_cumprod"] = torch.linspace(1, 0, 1000)
    return {name: value.clone().contiguous() for name, value in state.items()}
