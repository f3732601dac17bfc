"""Z*: attention over the style and the picture that is being painted, in one softmax (Deng et al., CVPR
2024, https://arxiv.org/abs/2311.16491).

    softmax([1.2 q_cs K_s, q_cs K_cs]) [V_s; V_cs]

starting from the content's own noise, without AdaIN. The first steps are left alone, and before each step the
latent is pulled 1 % towards the inverted content.

In the authors' code the style stream attends to the picture in return, within each pass,

    softmax([1.5 q_s K_cs, q_s K_s]) [V_cs; V_s]

which `released` does as well; without it the style is what its inversion saw, as in the paper's formula. It
also denoises with guidance 7.5 between two empty prompts, one of them optimised so that the content comes
back (null_text.py); without guidance the two agree and there is nothing to optimise. That is `guidance`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import Identity, controlled
from ..backbone.sites import Site
from ..core import ddim
from ..features.inversion import Trajectory
from ..features.recording import STYLE
from ..job import InputError
from .method import DiffusionMethod, Grid, OnDenoise, Scene, unit_interval
from .null_text import guided, null_prompts
from .styleid import only_style

STEPS = 30  # what `first` and `last` count in: the number of steps in the authors' code
RETURN_WEIGHT = 1.5  # of the picture's keys where the style looks at them


@dataclass(frozen=True)
class ZStar(DiffusionMethod):
    """weight: multiplies the logits of the style's keys. pull: how far each step draws the latent to the
    inverted content.

    first, last: the steps under control, counted from the noisy end as if there were 30; 5 and 29 in the
    authors' code. Schedules of other lengths take the same share. first = 30 controls nothing.
    released: the style looks at the picture in return, so both must have one size, and `pull` is that of one
    step of 30: with another number of moves they pull as far together. guidance: 7.5 in the authors' code,
    with an empty prompt optimised for the photo before; 1 is none. It takes a model with a text encoder.
    """

    weight: float = 1.2
    first: int = 5
    last: int = 29
    pull: float = 0.01
    released: bool = False
    guidance: float = 1.0
    # The prompts found last and whose they are: the regions of one photo share them.
    _found: list[tuple[Trajectory, list[Tensor]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    name = "zstar"
    about = "one style for the whole photo: style keys beside the picture's own, in one softmax"
    family = "global-single"
    licence = "Apache-2.0"
    reference = "Deng, He, Tang, Dong: Z*: Zero-shot Style Transfer via Attention Reweighting, CVPR 2024"
    released_changes = (
        "the style looks at the picture in return, times 1.5; pull for the number of moves; "
        "guidance=7.5 adds null-text optimisation"
    )
    style_features = STYLE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and 0 <= self.weight <= 20):
            raise InputError(f"weight is {self.weight}; it must be from 0 to 20 (the authors use 1.2)")
        for name, value, most in (("first", self.first, STEPS), ("last", self.last, STEPS - 1)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise InputError(f"{name} is {value}; it must be a whole number from 0 to {most}")
        unit_interval("pull", self.pull)
        if not (math.isfinite(self.guidance) and 1 <= self.guidance <= 30):
            raise InputError(
                f"guidance is {self.guidance}; it must be from 1, which is none, to 30 (the authors use 7.5)"
            )
        if self.guidance > 1 and not self.released:
            raise InputError(f"guidance is {self.guidance}; it is a part of released=on, add that")
        if self.released:  # its style runs beside the picture: nothing is recorded
            object.__setattr__(self, "style_features", frozenset())

    def check(self, backbone: Backbone, latent: Grid, styles: Sequence[Grid]) -> None:
        if self.guidance > 1 and not backbone.has_text:
            raise InputError(
                f"{backbone.name}: it was trained without a text encoder, so there is no empty prompt that "
                f"guidance={self.guidance:g} could optimise; leave guidance at 1, or give a Stable Diffusion "
                "model with --model"
            )
        other = next((style for style in styles if style != latent), None)
        if self.released and other is not None:
            cell = backbone.latent_stride
            (h, w), (rows, columns) = latent, other
            raise InputError(
                "zstar with released=on paints photo and style in one pass, so both must have one size; here "
                f"they work at {w * cell}x{h * cell} and {columns * cell}x{rows * cell} px: crop them to the "
                "same shape (--fit square), or leave released off"
            )

    @property
    def plain_loop(self) -> bool:
        return not self.released

    def reported_steps(self, schedule: ddim.Schedule) -> int:
        """How often `sample` reports a step: every move's optimisation is one more."""
        moves = super().reported_steps(schedule)
        return 2 * moves if self.guidance > 1 else moves

    def start(self, scene: Scene) -> Tensor:
        only_style(self, scene)
        return scene.content.trajectory.noise

    def controls(self, step: int, steps: int) -> bool:
        """Whether the step that starts at timestep `step` of a schedule with `steps` timesteps is under
        control.
        """
        done, moves = steps - 1 - step, steps - 1
        return self.first <= done * STEPS // moves <= self.last

    def controls_now(self, scene: Scene) -> bool:
        """Whether the scene's step is under control."""
        schedule = scene.schedule
        levels = schedule.whole_moves + 1  # of noise; a clean end is one more than there are timesteps
        return self.controls(scene.step + levels - schedule.whole_length, levels)

    def attend(self, scene: Scene, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if not self.controls_now(scene):
            return F.scaled_dot_product_attention(query, key, value)
        style_key, style_value = scene.styles_at(site)[0].key_value()
        return beside(query, key, value, style_key.unsqueeze(0), style_value.unsqueeze(0), self.weight)

    def after_step(self, scene: Scene, latent: Tensor) -> Tensor:
        last, _ = scene.schedule.moves[-1]
        if scene.step == last:
            return latent  # the pull comes before a pass, and none follows
        reached = scene.step - 1
        pull = self.pull_of_a_move(scene.schedule)
        return latent + pull * (scene.content.trajectory.latents[reached : reached + 1] - latent)

    def pull_of_a_move(self, schedule: ddim.Schedule) -> float:
        """As released, what n moves must each pull to reach as far as the authors' 30."""
        return 1 - (1 - self.pull) ** (STEPS / schedule.whole_moves) if self.released else self.pull

    # ------------------------------------------------------------ as released

    @torch.inference_mode()
    def sample(self, scene: Scene, on_step: OnDenoise | None = None) -> Tensor:
        if not self.released:
            return super().sample(scene, on_step)
        schedule, backbone = scene.schedule, scene.backbone
        # Once more: of two shapes that are nearly one a smaller level may be rounded apart.
        self.check(backbone, scene.latent, [style.latent for style in scene.styles])
        z = self.start(scene) if scene.taken_up is None else scene.taken_up.noisy
        nulls = self._prompts(scene, on_step) if self.guidance > 1 else []
        for number, (i, to) in enumerate(self.denoising_path(scene)):
            scene.set_step(i)
            rows = torch.cat([scene.styles[0].trajectory.points[i : i + 1], z])
            prompt = None
            if nulls:
                rows = torch.cat([rows, rows])
                empty = backbone.empty_prompt.float()
                prompt = torch.cat([nulls[number], nulls[number], empty, empty])
            with controlled(backbone.unet, backbone.sites, _Pair(self, scene)):
                predictions = backbone.predict(rows, schedule.timesteps[i], prompt)[1::2]
            prediction = guided(predictions[:1], predictions[-1:], self.guidance)  # none where both are one
            z, x0 = ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)
            z = self.after_step(scene, z)
            if on_step is not None:
                changed = on_step(i, z, x0)
                z = z if changed is None else changed
        return z

    def _prompts(self, scene: Scene, on_step: OnDenoise | None) -> list[Tensor]:
        """The photo's optimised prompts, found once; each move is reported, with the photo for a picture."""
        trajectory = scene.content.trajectory

        def tell(step: int) -> None:
            if on_step is not None:
                on_step(step, trajectory.noise, trajectory.clean)

        if self._found and self._found[0][0] is trajectory:
            for step, _ in scene.schedule.moves:
                tell(step)
        else:
            found = null_prompts(scene.backbone, trajectory, scene.schedule, self.guidance, tell)
            self._found[:] = [(trajectory, found)]
        return self._found[0][1]


class _Pair(Identity):
    """The control of passes whose rows are style, picture, and the two again with another prompt."""

    def __init__(self, method: ZStar, scene: Scene):
        self.method, self.scene = method, scene

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if not self.method.controls_now(self.scene):
            return super().attend(site, query, key, value)
        (q_s, k_s, v_s), (q_p, k_p, v_p) = ([x[row::2] for x in (query, key, value)] for row in (0, 1))
        in_return = beside(q_s, k_s, v_s, k_p, v_p, RETURN_WEIGHT)
        reference = self.scene.styles[0]
        keep = reference.keep.get(site.grid(reference.latent))
        if keep is not None:
            k_s, v_s = k_s.index_select(2, keep), v_s.index_select(2, keep)
        painted = beside(q_p, k_p, v_p, k_s, v_s, self.method.weight)
        return torch.stack([in_return, painted], 1).flatten(0, 1)


def beside(
    query: Tensor, key: Tensor, value: Tensor, other_key: Tensor, other_value: Tensor, weight: float
) -> Tensor:
    """Attention to one's own keys (b, heads, tokens, d) and to weighed ones of another picture, in one
    softmax; float32.
    """
    keys = torch.cat([weight * other_key.float(), key.float()], 2)
    values = torch.cat([other_value.float(), value.float()], 2)
    return F.scaled_dot_product_attention(query.float(), keys, values)
