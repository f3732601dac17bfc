"""The noise of the embedded model: Stable Diffusion's levels, v-prediction, each row of a batch at its own t.

`mast.core.ddim` has the schedule and the moves; what is here is for batches of mixed timesteps.
"""

from typing import Any

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.load import SD_SCHEDULER
from mast.core.ddim import cumulative_alphas

SCHEDULE: dict[str, Any] = SD_SCHEDULER | {"prediction_type": "v_prediction"}
ALPHAS = cumulative_alphas(SCHEDULE)


def levels(t: Tensor) -> tuple[Tensor, Tensor]:
    """Timesteps (b) -> the amounts of signal and noise, (b, 1, 1, 1) each: signal^2 + noise^2 = 1."""
    alpha = ALPHAS[t].view(-1, 1, 1, 1)
    return alpha.sqrt(), (1 - alpha).sqrt()


def velocity(noisy: Tensor, clean: Tensor, t: Tensor) -> Tensor:
    """The v (b, c, h, w) that leads from `noisy` to `clean`, whatever picture the noise was added to."""
    signal, noise = levels(t)
    return (signal * noisy - clean) / noise


def predicted_clean(noisy: Tensor, v: Tensor, t: Tensor) -> Tensor:
    """The clean latent (b, c, h, w) that v claims."""
    signal, noise = levels(t)
    return signal * noisy - noise * v


def empty_prompt(unet: UNet2DConditionModel, batch: int) -> Tensor:
    """The one zero token (batch, 1, d) that stands where Stable Diffusion has a text."""
    return torch.zeros(batch, 1, unet.config["cross_attention_dim"])
