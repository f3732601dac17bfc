"""StyleID: the whole photo asks one style (Chung et al., CVPR 2024, https://arxiv.org/abs/2312.09008).

The start is the content's noise with the style's channel statistics; at the six sites the blended query
gamma q_c + (1 - gamma) q_cs meets the style's keys and values, with logits times a fixed temperature. It is
MAST with one style, all the mass given to it (pi* = 1), a fixed factor, and no detail injection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from ..backbone.sites import Site
from ..core import ddim
from ..core.adain import adain
from ..features.recording import STYLE
from ..job import InputError
from .method import DiffusionMethod, Reference, Scene, unit_interval

GAMMA = 0.75  # the authors' default


@dataclass(frozen=True)
class StyleID(DiffusionMethod):
    """gamma: how much of the content's query is kept, 0.75, or 0.3 for a stronger style.

    temperature: multiplies the logits. released: the schedule of the authors' code instead of ours. There the
    inversion makes one move more, from the last timestep of the schedule (981) to the last of all (999);
    denoising leaves out its first step and takes that latent for the one at the timestep before (961); and
    its last move, made by the U-Net at the first timestep (1), leads to timestep 0. Ours starts at the
    timestep that the latent belongs to.
    """

    gamma: float = GAMMA
    temperature: float = 1.5
    released: bool = False

    name = "styleid"
    about = "one style for the whole photo: blended queries, the style's keys and values, sharper logits"
    family = "global-single"
    reference = "Chung, Hyun, Heo: Style Injection in Diffusion, CVPR 2024"
    released_changes = "denoises from t = 961 on, starting with the latent of t = 999"
    content_features = frozenset({"query"})
    style_features = STYLE

    def __post_init__(self) -> None:
        unit_interval("gamma", self.gamma)
        check_temperature(self.temperature)

    @property
    def works_in_windows(self) -> bool:
        """Not as released: its one move more is made of the whole picture."""
        return super().works_in_windows and not self.released

    def start(self, scene: Scene) -> Tensor:
        """The content's noise with the channel statistics of the style's, over the whole latent."""
        style = only_style(self, scene)
        content_noise, style_noise = scene.content.trajectory.noise, style.trajectory.noise
        if self.released and not scene.schedule.whole:
            content_noise, style_noise = _to_the_very_end(scene, content_noise, style_noise)
        return adain(content_noise, style_noise, style.weight)

    def attend(self, scene: Scene, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        content = scene.content_at(site).query
        assert content is not None
        blended = self.gamma * content + (1 - self.gamma) * query[0].float()
        keys, values = self.key_value(scene, site)
        output = F.scaled_dot_product_attention(
            self.temperature * blended.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0)
        )
        return output

    def key_value(self, scene: Scene, site: Site) -> tuple[Tensor, Tensor]:
        """The style's keys and values (heads, tokens, d) at a site."""
        return scene.styles_at(site)[0].key_value()

    def reported_steps(self, schedule: ddim.Schedule) -> int:
        own = self.released and not schedule.whole
        return len(schedule) - 1 if own else super().reported_steps(schedule)

    def denoising_path(self, scene: Scene) -> list[tuple[int, float]]:
        """As released, the authors' loop: from the last timestep but one to the first, and on to 0. A run
        that goes on from a smaller picture makes the ordinary moves.
        """
        if not self.released or scene.schedule.whole:
            return super().denoising_path(scene)
        targets = (float(ddim.cumulative_alphas(scene.backbone.scheduler.config)[0]), *scene.schedule.alphas)
        return [(i, targets[i]) for i in range(len(scene.schedule) - 2, -1, -1)]


def _to_the_very_end(scene: Scene, *noises: Tensor) -> list[Tensor]:
    """One more move of the inversion, from the schedule's last timestep to the last training timestep."""
    schedule = scene.schedule
    end = max(float(ddim.cumulative_alphas(scene.backbone.scheduler.config)[-1]), 1e-8)
    moved = []
    for noise in noises:
        prediction = scene.backbone.predict(noise, schedule.timesteps[-1])
        moved.append(ddim.move(noise, prediction, schedule.alphas[-1], end, schedule.prediction_type)[0])
    return moved


def only_style(method: DiffusionMethod, scene: Scene) -> Reference:
    """The one style of a scene; a method that knows one style is refused several."""
    if len(scene.styles) != 1:
        raise InputError(
            f"{method.name} paints with one style at a time and was given {len(scene.styles)}; run it once "
            "per region and join the pictures (--composite)"
        )
    return scene.styles[0]


def check_temperature(temperature: float) -> None:
    if not (math.isfinite(temperature) and 0 < temperature <= 20):
        raise InputError(f"temperature is {temperature}; it must be above 0 and at most 20")
