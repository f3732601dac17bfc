"""Z*: attention over the style and the picture that is being painted, in one softmax (Deng et al., CVPR
2024, https://arxiv.org/abs/2311.16491).

    softmax([1.2 q_cs K_s, q_cs K_cs]) [V_s; V_cs]

starting from the content's own noise, without AdaIN. The first steps are left alone, and before each step the
latent is pulled 1 % towards the inverted content.

The authors' code differs in two ways. It denoises with guidance 7.5 between two empty prompts, one of them
optimised so that the content comes back (null-text inversion); without guidance the two agree and there is
nothing to optimise, so it is left out. And its style stream attends to the content in return, within each
pass; here the style is what its inversion saw, as in the paper's formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.sites import Site
from ..features.recording import STYLE
from ..job import InputError
from .method import DiffusionMethod, Scene, unit_interval
from .styleid import only_style

STEPS = 30  # what `first` and `last` count in: the number of steps in the authors' code


@dataclass(frozen=True)
class ZStar(DiffusionMethod):
    """weight: multiplies the logits of the style's keys. pull: how far each step draws the latent to the
    inverted content.

    first, last: the steps under control, counted from the noisy end as if there were 30; 5 and 29 in the
    authors' code. Schedules of other lengths take the same share. first = 30 controls nothing.
    """

    weight: float = 1.2
    first: int = 5
    last: int = 29
    pull: float = 0.01

    name = "zstar"
    about = "one style for the whole photo: style keys beside the picture's own, in one softmax"
    family = "global-single"
    licence = "Apache-2.0"
    reference = "Deng, He, Tang, Dong: Z*: Zero-shot Style Transfer via Attention Reweighting, CVPR 2024"
    style_features = STYLE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and 0 <= self.weight <= 20):
            raise InputError(f"weight is {self.weight}; it must be from 0 to 20 (the authors use 1.2)")
        for name, value, most in (("first", self.first, STEPS), ("last", self.last, STEPS - 1)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise InputError(f"{name} is {value}; it must be a whole number from 0 to {most}")
        unit_interval("pull", self.pull)

    def start(self, scene: Scene) -> Tensor:
        only_style(self, scene)
        return scene.content.trajectory.noise

    def controls(self, step: int, steps: int) -> bool:
        """Whether the step that starts at timestep `step` of a schedule with `steps` timesteps is under
        control.
        """
        done, moves = steps - 1 - step, steps - 1
        return self.first <= done * STEPS // moves <= self.last

    def attend(self, scene: Scene, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if not self.controls(scene.step, scene.schedule.whole_length):
            return F.scaled_dot_product_attention(query, key, value)
        style_key, style_value = scene.styles_at(site)[0].key_value()
        keys = torch.cat([self.weight * style_key.unsqueeze(0), key.float()], 2)
        values = torch.cat([style_value.unsqueeze(0), value.float()], 2)
        return F.scaled_dot_product_attention(query.float(), keys, values)

    def after_step(self, scene: Scene, latent: Tensor) -> Tensor:
        reached = scene.step - 1
        if reached == 0:
            return latent  # the pull comes before a pass, and none follows
        return latent + self.pull * (scene.content.trajectory.latents[reached : reached + 1] - latent)
