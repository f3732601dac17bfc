"""Null-text inversion (Mokady et al., CVPR 2023, https://arxiv.org/abs/2211.09794): an empty prompt for every
step, optimised so that denoising with guidance follows the path that inversion took.

Guidance g moves with  u + g (p - u),  p being what the U-Net predicts for the prompt and u what it predicts
for the empty one. At g = 1 that is p, and DDIM comes back the way it went; at 7.5 it does not. So u's prompt
is trained, step by step from the noisy end and each step from where the one before left it, until the step
leads to the latent that the inversion had there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.backbone import Backbone
from ..core import ddim
from ..features.inversion import Trajectory

# As in the published code: at most so many steps of Adam, whose rate falls by a hundredth of itself with each
# move, and which ends early once the error is this small. The bound is looser the more moves are behind.
INNER_STEPS, RATE, MOVES_TO_NOTHING = 10, 1e-2, 100
ENOUGH, LOOSER = 1e-5, 2e-5


def guided(empty: Tensor, told: Tensor, guidance: float) -> Tensor:
    """Classifier-free guidance between two predictions of one shape."""
    return empty + guidance * (told - empty)


def null_prompts(
    backbone: Backbone,
    trajectory: Trajectory,
    schedule: ddim.Schedule,
    guidance: float,
    on_move: Callable[[int], None],
) -> list[Tensor]:
    """The optimised prompts (1, tokens, channels), float32, one for each of the schedule's moves.

    The prompt that is told is the empty one, too. on_move is called after each move with the index of its
    timestep, and may raise. Gradients flow whatever mode the caller is in.
    """
    found: list[Tensor] = []
    with torch.inference_mode(False), torch.enable_grad():
        null, z = backbone.empty_prompt.float().clone(), trajectory.noise.clone()
        for number, (i, to) in enumerate(schedule.moves):
            target = (trajectory.latents[i - 1 : i] if i else trajectory.clean).clone()
            with torch.no_grad():
                told = backbone.predict(z, schedule.timesteps[i])
            null = null.detach().clone().requires_grad_()
            fade = 1 - min(number, MOVES_TO_NOTHING - 1) / MOVES_TO_NOTHING
            adam = torch.optim.Adam([null], lr=RATE * fade)
            for _ in range(INNER_STEPS):
                reached = _moved(backbone, z, (schedule, i, to), null, told, guidance)
                loss = F.mse_loss(reached, target)
                adam.zero_grad()
                loss.backward()
                adam.step()
                if float(loss.detach()) < ENOUGH + number * LOOSER:
                    break
            with torch.no_grad():
                z = _moved(backbone, z, (schedule, i, to), null, told, guidance)
            found.append(null.detach())
            on_move(i)
    return found


def _moved(
    backbone: Backbone,
    z: Tensor,
    move: tuple[ddim.Schedule, int, float],
    null: Tensor,
    told: Tensor,
    guidance: float,
) -> Tensor:
    """z (1, c, h, w) after one guided move: of a schedule, from a timestep by its index, to an alpha."""
    schedule, i, to = move
    prediction = guided(backbone.predict(z, schedule.timesteps[i], null), told, guidance)
    return ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)[0]
