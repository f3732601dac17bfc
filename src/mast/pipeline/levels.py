"""Coarse to fine: pictures larger than a model is at home with.

A model paints best at the size it was trained at, and attention costs the square of the area. So the photo is
stylized at the model's own size; the picture is enlarged and encoded, and the photo's own trajectory at the
larger size is taken up in the middle of the schedule,

    z_k = sqrt(a_k) E(enlarged) + sqrt(1 - a_k) e_k,     e_k = (z_k - sqrt(a_k) z_0) / sqrt(1 - a_k),

where z_k and z_0 are the photo's inverted and clean latent: strokes come from the small picture, edges from
the photo. From there it is denoised under the same control, with features of the larger size. Inversion at
that size only has to reach step k.
"""

from __future__ import annotations

import math

from torch import Tensor

from ..methods.method import Scene, TakenUp

LARGEST_STEP = 2.0  # how many times larger than the one below a level may be
NEAR = 1.25  # up to so many times its own size a model needs no level below


def level_sizes(size: int, native: int, coarse: int | str, refine: float) -> list[int]:
    """The sizes to paint at, in pixels of the longer side, ascending to `size`.

    coarse: "auto" for the model's own size, "off" for none but `size`, or pixels. refine: 1 leaves nothing of
    a smaller picture, so there is none.
    """
    first = native if coarse == "auto" else size if coarse == "off" else int(coarse)
    if refine >= 1 or first >= size or (coarse == "auto" and size <= NEAR * native):
        return [size]
    count = math.ceil(math.log(size / first, LARGEST_STEP) - 1e-9)
    return [round(first * (size / first) ** (i / count)) for i in range(count)] + [size]


def refined_steps(refine: float, steps: int) -> int:
    """How many of a schedule's timesteps a level above the first passes, from step k to the clean end."""
    return 1 + max(1, round(refine * (steps - 1)))


def taken_up(clean: Tensor, scene: Scene) -> TakenUp:
    """The latent z_k to go on from; clean: E(enlarged), (1, c, h, w)."""
    trajectory, signal = scene.content.trajectory, math.sqrt(scene.schedule.alphas[-1])
    return TakenUp(clean, trajectory.noise + signal * (clean - trajectory.clean))
