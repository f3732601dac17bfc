"""DDIM inversion (Sec. 3.2): a clean latent becomes the trajectory z_t of latents that leads to its noise.

plain    At each t the U-Net predicts at (z_t, t) and the latent moves on with that noise: the paper's
         inversion. From a clean end the first move is made with the noise predicted at (z_clean, 1).
refined  Denoising comes back from t_(i+1) with the noise predicted at t_(i+1), so the way out should use it
         too. Step by step the latent is first moved with the noise that the last two predictions point to,
         the U-Net predicts at the point reached, and the move is done again with that noise. One pass a
         step, as plain, but nearly exact on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..core import ddim
from ..core.windows import Windows


@dataclass(frozen=True)
class Trajectory:
    """latents: (steps, c, h, w), z at every timestep, the cleanest first.

    points: (steps, c, h, w), where the U-Net looked at each timestep: features are those of (points[i],
    timesteps[i]). Plain inversion looks at the latents themselves.
    below: (1, c, h, w), the clean latent of a schedule with a clean end; else it is the first of the latents.
    """

    latents: Tensor
    points: Tensor
    below: Tensor | None = None

    @property
    def clean(self) -> Tensor:
        """The picture's own latent, (1, c, h, w)."""
        return self.latents[:1] if self.below is None else self.below

    @property
    def noise(self) -> Tensor:
        """z_T, (1, c, h, w)."""
        return self.latents[-1:]

    def seen_in(self, windows: Windows, index: int) -> Trajectory:
        """What a window shows of it."""
        below = None if self.below is None else windows.cut(self.below, index)
        return Trajectory(windows.cut(self.latents, index), windows.cut(self.points, index), below)


OnPass = Callable[[int], None]
"""Called after each U-Net pass with the index of its timestep; raising ends the inversion. With a clean end
the first timestep has two passes, of which the second is the one at z_t.
"""

Predict = Callable[[Tensor, int], Tensor]
"""What the U-Net says of a latent at the timestep of an index."""


@torch.inference_mode()
def invert(
    backbone: Backbone,
    clean: Tensor,
    schedule: ddim.Schedule,
    refined: bool = False,
    on_pass: OnPass | None = None,
    features: bool = False,
    predict: Predict | None = None,
) -> Trajectory:
    """The trajectory of one clean latent (1, c, h, w). One picture at a time, so that the bits do not
    depend on its company.

    features: whoever watches the U-Net wants to see every timestep, the last one too. predict: how it is
    asked, where that is not in one pass.
    """
    ask = predict or (lambda latent, step: backbone.predict(latent, schedule.timesteps[step]))

    def noise_at(z: Tensor, i: int) -> Tensor:
        return ddim.split(z, ask(z, i), schedule.alphas[i], schedule.prediction_type)[1]

    first, end = clean, schedule.clean_end
    if end is not None:
        first = ddim.carry(clean, noise_at(clean, 0), end, schedule.alphas[0])
        if on_pass is not None:
            on_pass(0)
    latents, points = [first], [first]
    before: Tensor | None = None
    for i, alpha in enumerate(schedule.alphas):
        last = i + 1 == len(schedule)
        if last and not refined and not features:
            break  # the latent is there already, and nobody asked for the features
        noise = noise_at(points[i], i)
        if refined and i > 0:
            latents[i] = ddim.carry(latents[i - 1], noise, schedule.alphas[i - 1], alpha)
        elif refined and end is not None:
            latents[i] = ddim.carry(clean, noise, end, alpha)
        if not last:
            guess = noise if before is None or not refined else 2 * noise - before
            reached = ddim.carry(latents[i], guess, alpha, schedule.alphas[i + 1])
            latents.append(reached)
            points.append(reached)
        before = noise
        if on_pass is not None:
            on_pass(i)
    # In one memory layout, whatever the U-Net's: a trajectory from the cache must give the very same bits.
    path = torch.cat(latents).contiguous()
    seen = torch.cat(points).contiguous() if refined else path
    return Trajectory(path, seen, None if end is None else clean.contiguous())


def passes(schedule: ddim.Schedule, refined: bool, features: bool) -> int:
    """How many U-Net passes `invert` makes."""
    steps = len(schedule) + (schedule.clean_end is not None)
    return steps if refined or features else steps - 1
