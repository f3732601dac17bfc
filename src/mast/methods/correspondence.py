"""Which place of one picture is most like which place of another, by the cosine of diffusion features (DIFT,
Tang et al., NeurIPS 2023, https://arxiv.org/abs/2306.03881).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.taps import block_features
from ..core.ddim import Schedule, cumulative_alphas

CHUNK_BYTES = 32 << 20  # of the similarity table that is looked at in one go


@dataclass(frozen=True)
class Matches:
    """For every place of the first picture, in reading order: the index of the most similar place of the
    second, and the cosine; each (places,).
    """

    index: Tensor
    cosine: Tensor


def best_matches(features: Tensor, others: Tensor, among: Tensor | None = None) -> Matches:
    """features: (c, h, w); others: (c, h', w'). The whole similarity table never exists.

    among: indices of the only places of the second picture that may be found; the result counts in them.
    """
    rows = F.normalize(features.flatten(1).T.float(), dim=1)
    columns = F.normalize(others.flatten(1).T.float(), dim=1)
    if among is not None:
        columns = columns.index_select(0, among)
    size = max(1, CHUNK_BYTES // (4 * len(columns)))
    found = [(chunk @ columns.T).max(1) for chunk in rows.split(size)]
    return Matches(torch.cat([best.indices for best in found]), torch.cat([best.values for best in found]))


def same_place(grid: tuple[int, int], other: tuple[int, int], device: torch.device | str = "cpu") -> Tensor:
    """For every cell of a grid (h, w), in reading order, the index of the cell of another grid that lies at
    the same place of its picture; (h w,). The identity for equal grids.
    """
    (h, w), (rows, columns) = grid, other
    y = ((torch.arange(h, device=device) * 2 + 1) * rows) // (2 * h)
    x = ((torch.arange(w, device=device) * 2 + 1) * columns) // (2 * w)
    return (y[:, None] * columns + x).flatten()


def nearest_step(schedule: Schedule, t: int) -> int:
    """The index of the timestep that is nearest by value."""
    return min(range(len(schedule)), key=lambda i: abs(schedule.timesteps[i] - t))


def noisy_features(
    backbone: Backbone,
    clean: Tensor,
    t: int,
    blocks: Sequence[str],
    generator: torch.Generator,
    count: int,
    on_pass: Callable[[], None],
) -> dict[str, Tensor]:
    """The blocks' outputs (c, h, w) for a clean latent (1, c, h, w) noised to timestep t, mean of `count`
    noises that the generator draws, which is DIFT's own recipe. on_pass is called after each.
    """
    alpha = float(cumulative_alphas(backbone.scheduler.config)[t])
    total: dict[str, Tensor] = {}
    for _ in range(count):
        # Drawn on the CPU: the same numbers whatever the device.
        noise = torch.randn(clean.shape, generator=generator).to(clean.device)
        found = block_features(backbone, math.sqrt(alpha) * clean + math.sqrt(1 - alpha) * noise, t, blocks)
        total = {name: total[name] + value if total else value for name, value in found.items()}
        on_pass()
    return {name: value / count for name, value in total.items()}
