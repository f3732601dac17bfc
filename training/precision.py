"""Half the bits, twice the speed: training in bfloat16 on the CPUs that can, with 32-bit weights.

Convolutions and matrix products are what it is for. Attention and the control's own arithmetic stay in 32
bit: PyTorch's fused attention is slower backwards in bfloat16 than in 32 bit.
"""

import argparse
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from diffusers.models.attention_processor import AttnProcessor
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.device import cpu_runs_bfloat16
from mast.backbone.instrument import Control
from mast.backbone.sites import Site


def halved(enabled: bool = True) -> AbstractContextManager[None]:
    """Inside, products are computed in bfloat16; or no longer."""
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


def add_half_argument(parser: argparse.ArgumentParser) -> None:
    """--bfloat16."""
    parser.add_argument(
        "--bfloat16", action="store_true", help="compute in bfloat16 where this CPU can: about twice as fast"
    )


def half_from(args: argparse.Namespace) -> bool:
    """Whether bfloat16 is wanted and possible; says so where this CPU cannot."""
    possible = args.bfloat16 and cpu_runs_bfloat16()
    if args.bfloat16 and not possible:
        print("this CPU cannot compute in bfloat16: training in 32 bit", flush=True)
    return possible


def prepare(unet: UNet2DConditionModel) -> None:
    """Gives the attentions that no control reaches products instead of the fused kernel."""
    unet.set_attn_processor(AttnProcessor())


@dataclass
class InFull:
    """A control that computes in 32 bit whatever the U-Net around it does."""

    control: Control

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with halved(False):
            return self.control.attend(site, query.float(), key.float(), value.float())

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        with halved(False):
            return self.control.residual(site, branch.float()).to(branch.dtype)
