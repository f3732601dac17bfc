"""The noise of the embedded model: Stable Diffusion's schedule, v-prediction, and DDIM in both directions."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from torch import Tensor

LEVELS = 1000
SCHEDULE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": LEVELS,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "steps_offset": 1,
    "prediction_type": "v_prediction",
}

Predictor = Callable[[Tensor, int], Tensor]


def build_scheduler() -> DDIMScheduler:
    """What is exported beside the U-Net, and where the levels below come from: they cannot drift apart."""
    return DDIMScheduler(**SCHEDULE)


ALPHAS: Tensor = build_scheduler().alphas_cumprod


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


def noise_predictor(unet: UNet2DConditionModel) -> Predictor:
    """(latent (b, c, h, w), t) -> noise (b, c, h, w), from a v-predicting U-Net."""

    @torch.no_grad()
    def predict(z: Tensor, t: int) -> Tensor:
        signal, noise = levels(torch.tensor([t]))
        return noise * z + signal * unet(z, t, empty_prompt(unet, len(z))).sample

    return predict


def ddim_timesteps(steps: int) -> list[int]:
    """1, 1 + 1000 // n, ...: leading, offset 1, ascending. The clean latent is the one at the first."""
    if not 2 <= steps <= LEVELS // 2:
        raise ValueError(f"steps must be between 2 and {LEVELS // 2}, not {steps}")
    return [1 + i * (LEVELS // steps) for i in range(steps)]


def move(z: Tensor, noise: Tensor, start: int, end: int) -> Tensor:
    """DDIM from timestep `start` to `end` along `noise` (https://arxiv.org/abs/2010.02502, eq. 12)."""
    (a, b), (c, d) = levels(torch.tensor([start])), levels(torch.tensor([end]))
    return c * (z - b * noise) / a + d * noise


def invert(z: Tensor, predict: Predictor, timesteps: Sequence[int], corrections: int = 0) -> Tensor:
    """Clean latent -> noise. A correction redoes a move with the noise predicted where it led to."""
    for start, end in pairwise(timesteps):
        reached = move(z, predict(z, start), start, end)
        for _ in range(corrections):
            reached = move(z, predict(reached, end), start, end)
        z = reached
    return z


def denoise(z: Tensor, predict: Predictor, timesteps: Sequence[int]) -> Tensor:
    """Noise -> clean latent, the same timesteps backwards."""
    for start, end in pairwise(reversed(timesteps)):
        z = move(z, predict(z, start), start, end)
    return z
