"""Half the bits, twice the speed: training in bfloat16 on the CPUs that can, with 32-bit weights.

Convolutions and matrix products are what it is for. Attention and the control's own arithmetic stay in 32
bit: PyTorch's fused attention is slower backwards in bfloat16 than in 32 bit.
"""

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


def can_halve() -> bool:
    """Whether this CPU computes in bfloat16 at all; says so where it does not."""
    possible = cpu_runs_bfloat16()
    if not possible:
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
