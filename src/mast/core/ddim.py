"""DDIM (Song et al. 2021, https://arxiv.org/abs/2010.02502) with eta 0, forwards and backwards.

Convention: at each t the U-Net sees (z_t, t) and the latent moves to a neighbouring t, so features recorded
while inverting equal features recomputed from the stored z_t, and inversion followed by denoising with one
and the same noise is the identity. Where the clean latent is depends on the schedule. Without a clean end it
*is* z at the first timestep, and n timesteps make n - 1 moves. With one it lies below the first timestep, as
the paper has it, and every timestep makes a move: the last one, from t = 1, leads to the clean end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

PREDICTION_TYPES = ("epsilon", "v_prediction", "sample")


@dataclass(frozen=True)
class Schedule:
    """`timesteps` ascend from the clean end; `alphas[i]` is the cumulative alpha at timesteps[i].

    whole: how many timesteps the schedule has that this one is the clean part of; 0 where it is whole.
    clean_end: the cumulative alpha of the clean latent, below the first timestep; None where the clean latent
    is z at the first timestep.
    """

    timesteps: tuple[int, ...]
    alphas: tuple[float, ...]
    prediction_type: str
    whole: int = 0
    clean_end: float | None = None

    def __len__(self) -> int:
        return len(self.timesteps)

    @property
    def whole_length(self) -> int:
        return self.whole or len(self.timesteps)

    @property
    def moves(self) -> list[tuple[int, float]]:
        """Denoising: the timesteps to move from, by their index, and the alpha that each move leads to."""
        found = [(i, self.alphas[i - 1]) for i in range(len(self) - 1, 0, -1)]
        return found if self.clean_end is None else [*found, (0, self.clean_end)]

    @property
    def whole_moves(self) -> int:
        """Of the schedule that this one is the clean part of."""
        return self.whole_length - (self.clean_end is None)

    def clean_part(self, count: int) -> Schedule:
        """The first `count` timesteps, those with the least noise."""
        return replace(
            self, timesteps=self.timesteps[:count], alphas=self.alphas[:count], whole=self.whole_length
        )


def cumulative_alphas(config: Mapping[str, Any]) -> Tensor:
    """Cumulative products of 1 - beta, (num_train_timesteps,) float32, from a diffusers scheduler config."""
    count = config.get("num_train_timesteps", 1000)
    start, end = config.get("beta_start", 0.0001), config.get("beta_end", 0.02)
    kind = config.get("beta_schedule", "linear")
    if config.get("trained_betas") is not None:
        betas = torch.tensor(config["trained_betas"], dtype=torch.float32)
    elif kind == "linear":
        betas = torch.linspace(start, end, count, dtype=torch.float32)
    elif kind == "scaled_linear":
        betas = torch.linspace(start**0.5, end**0.5, count, dtype=torch.float32) ** 2
    elif kind == "squaredcos_cap_v2":
        bar = [math.cos((i / count + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(count + 1)]
        betas = torch.tensor([min(1 - b / a, 0.999) for a, b in pairwise(bar)])
    else:
        raise ValueError(
            f"beta schedule {kind!r} is not known; known are linear, scaled_linear, squaredcos_cap_v2"
        )
    if config.get("rescale_betas_zero_snr"):
        betas = _zero_terminal_snr(betas)
    return torch.cumprod(1 - betas, 0)


def _zero_terminal_snr(betas: Tensor) -> Tensor:
    """Lin et al. 2023 (https://arxiv.org/abs/2305.08891), Algorithm 1: the last timestep carries no
    signal.
    """
    root = torch.cumprod(1 - betas, 0).sqrt()
    first, last = root[0].clone(), root[-1].clone()
    bar = ((root - last) * first / (first - last)) ** 2
    return 1 - torch.cat([bar[:1], bar[1:] / bar[:-1]])


def make_schedule(config: Mapping[str, Any], steps: int, clean_end: bool = False) -> Schedule:
    """The `steps` timesteps of a scheduler config: leading, trailing or linspace spacing, with its offset.

    SD 1.4 with 50 steps: t = 1, 21, ..., 981. clean_end: with a move from the first timestep to where
    diffusers ends, alpha 1 or, where the config does not set it to one (SD 1.4), that of timestep 0.
    """
    count = config.get("num_train_timesteps", 1000)
    if not 1 <= steps <= count:
        raise ValueError(f"{steps} steps cannot be taken from {count} training timesteps")
    spacing, offset = config.get("timestep_spacing", "leading"), config.get("steps_offset", 0)
    if spacing == "leading":
        timesteps = [i * (count // steps) + offset for i in range(steps)]
    elif spacing == "trailing":
        timesteps = [round(count - i * count / steps) - 1 for i in range(steps)][::-1]
    elif spacing == "linspace":
        step = (count - 1) / max(steps - 1, 1)
        timesteps = [round(i * step) for i in range(steps)]
    else:
        raise ValueError(f"timestep spacing {spacing!r} is not known; known are leading, trailing, linspace")
    prediction_type = config.get("prediction_type", "epsilon")
    if prediction_type not in PREDICTION_TYPES:
        raise ValueError(
            f"prediction type {prediction_type!r} is not known; known are {', '.join(PREDICTION_TYPES)}"
        )
    alphas = cumulative_alphas(config)
    timesteps = [min(max(t, 0), count - 1) for t in timesteps]
    # With zero terminal SNR the last alpha is 0 and nothing could be divided by its root.
    end = (1.0 if config.get("set_alpha_to_one", True) else float(alphas[0])) if clean_end else None
    return Schedule(
        tuple(timesteps), tuple(max(float(alphas[t]), 1e-8) for t in timesteps), prediction_type, 0, end
    )


def split(z: Tensor, prediction: Tensor, alpha: float, prediction_type: str) -> tuple[Tensor, Tensor]:
    """The clean latent x0 and the noise that a prediction at cumulative alpha describes: z = sqrt(a) x0 +
    sqrt(1-a) e.
    """
    signal, noise = math.sqrt(alpha), math.sqrt(1 - alpha)
    if prediction_type == "epsilon":
        return (z - noise * prediction) / signal, prediction
    if prediction_type == "v_prediction":
        return signal * z - noise * prediction, signal * prediction + noise * z
    return prediction, (z - signal * prediction) / noise


def carry(z: Tensor, noise: Tensor, alpha: float, to: float) -> Tensor:
    """Moves z from cumulative alpha to another, in either direction, along the given noise (DDIM, eta 0)."""
    x0 = (z - math.sqrt(1 - alpha) * noise) / math.sqrt(alpha)
    return math.sqrt(to) * x0 + math.sqrt(1 - to) * noise


def move(
    z: Tensor, prediction: Tensor, alpha: float, to: float, prediction_type: str
) -> tuple[Tensor, Tensor]:
    """One DDIM step from cumulative alpha to another. Returns the moved latent and the clean estimate x0."""
    x0, noise = split(z, prediction, alpha, prediction_type)
    return math.sqrt(to) * x0 + math.sqrt(1 - to) * noise, x0
