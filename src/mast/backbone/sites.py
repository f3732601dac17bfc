"""The six controlled places of a Stable-Diffusion-shaped U-Net: "decoder output blocks 7-12" of the paper.

In diffusers' names they are the self-attentions
up_blocks.{2,3}.attentions.{0,1,2}.transformer_blocks.0.attn1, each with the ResBlock just before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..job import InputError


@dataclass(frozen=True)
class Site:
    """A self-attention and the ResBlock before it, by their names in the U-Net.

    index: counts the sites in the order they run; shrink: how many times coarser than the latent its grid is.
    """

    index: int
    attention: str
    residual: str
    shrink: int
    heads: int
    channels: int

    def grid(self, latent: tuple[int, int]) -> tuple[int, int]:
        """(h, w) of the feature map for a latent of (h, w)."""
        return latent[0] // self.shrink, latent[1] // self.shrink


UNETS = ("UNet2DConditionModel", "SDUNet")
DECODER = ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D")


def check_layout(name: str, blocks: Any, config: Mapping[str, Any]) -> None:
    """Refuses a decoder that is not Stable Diffusion's, by its name where it has one."""
    if not isinstance(blocks, (list, tuple)) or tuple(blocks) != DECODER:
        listed = blocks if isinstance(blocks, (list, tuple)) else [blocks]
        shown = " ".join(", ".join(map(str, listed)).split())[:200]
        family = "the SDXL family" if config.get("addition_embed_type") == "text_time" else "an unknown one"
        raise InputError(
            f"{name}: the decoder is {shown} ({family}); mast controls the layout of Stable Diffusion 1.x "
            "and 2.x: " + ", ".join(DECODER)
        )


def sites_for(unet: nn.Module) -> tuple[Site, ...]:
    """The controlled sites of an SD 1.x or 2.x U-Net; any other U-Net is refused by name."""
    kind, config = type(unet).__name__, getattr(unet, "config", {})
    if kind not in UNETS:
        raise InputError(
            f"{kind} is not a U-Net mast knows; it works with UNet2DConditionModel of Stable Diffusion "
            "1.x and 2.x"
        )
    check_layout("this U-Net", config["up_block_types"], config)
    modules = dict(unet.named_modules())
    sites: list[Site] = []
    for block in (2, 3):
        for layer in range(3):
            attention = f"up_blocks.{block}.attentions.{layer}.transformer_blocks.0.attn1"
            residual = f"up_blocks.{block}.resnets.{layer}"
            if attention not in modules or residual not in modules:
                raise InputError(
                    f"this U-Net has no {attention if attention not in modules else residual}: not Stable "
                    "Diffusion's layout"
                )
            if f"up_blocks.{block}.attentions.{layer}.transformer_blocks.1" in modules:
                raise InputError(
                    f"up_blocks.{block} has several transformer blocks per layer; Stable Diffusion 1.x "
                    "and 2.x have one"
                )
            _check_plain(attention, modules[attention], modules[residual])
            attn: Any = modules[attention]
            channels = attn.to_q.out_features
            sites.append(Site(len(sites), attention, residual, 2 ** (3 - block), attn.heads, channels))
    return tuple(sites)


def _check_plain(name: str, attention: nn.Module, residual: nn.Module) -> None:
    """Refuses what a control would get wrong silently: it stands for plain attention and a plain branch."""
    extras = ("group_norm", "norm_q", "norm_k", "spatial_norm")
    odd = [extra for extra in extras if getattr(attention, extra, None) is not None]
    if (
        getattr(attention, "residual_connection", False)
        or getattr(attention, "rescale_output_factor", 1.0) != 1.0
    ):
        odd.append("rescaled output")
    if getattr(residual, "output_scale_factor", 1.0) != 1.0:
        odd.append("scaled ResBlock")
    if odd:
        raise InputError(f"{name} uses {', '.join(odd)}, which Stable Diffusion 1.x and 2.x do not")
