"""MAST itself: query blending, then LAMA, STS and DDI, each of which can be switched off (Table 3's
rows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from ..backbone.sites import Site
from ..core import ddi, lama, sts
from ..core.adain import regional_adain
from ..core.attention import Joint, Partition, TauRule, joint_attention
from ..features.recording import CONTENT, STYLE, SiteFeatures
from ..job import InputError
from .method import DiffusionMethod, Scene, unit_interval

LARGEST_COEFFICIENT = 1000  # of tau's parabola; beyond it factors overflow before they are clipped


@dataclass(frozen=True)
class Mast(DiffusionMethod):
    """lam: lambda, how much of the content's query is blended in (Eq. 3). pi: pi*, the style mass of a full
    mask (Eq. 4).

    r: frequency scale of the detail filter (Eq. 43). tau: None for the coefficients fitted on the model (on
    SD 1.4 where it has none), three numbers (a, b, c) for others (Eq. 36), or one number for a fixed factor.
    mass_floor: clamps target masses from below; 0 is the exact limit, and 1e-6 what the paper's leakage of
    1.0e-6 lets one infer.
    """

    lam: float = 0.2
    pi: float = 0.9
    r: float = 0.3
    lama: bool = True
    sts: bool = True
    ddi: bool = True
    tau: float | tuple[float, float, float] | None = None
    mass_floor: float = 0.0

    name = "mast"
    about = "every region in its own style, in one pass: LAMA mass allocation, STS sharpness, DDI detail"
    reference = "MAST: the paper this project implements"
    content_features = CONTENT
    style_features = STYLE

    def __post_init__(self) -> None:
        unit_interval("lam", self.lam)
        unit_interval("pi", self.pi, low_open=True)
        if not (math.isfinite(self.r) and self.r > 0):
            raise InputError(f"r is {self.r}; it must be above 0 (the paper uses 0.3)")
        if not 0 <= self.mass_floor < 0.1:
            raise InputError(f"mass_floor is {self.mass_floor}; it must be from 0 to 0.1 (0 is exact)")
        if isinstance(self.tau, list):
            object.__setattr__(self, "tau", tuple(self.tau))
        values = self.tau if isinstance(self.tau, tuple) else (1.0 if self.tau is None else self.tau,)
        if not all(math.isfinite(value) for value in values):
            raise InputError(f"tau is {self.tau}; its numbers must be finite")
        if isinstance(self.tau, tuple) and not all(abs(value) <= LARGEST_COEFFICIENT for value in self.tau):
            raise InputError(
                f"tau is {self.tau}; coefficients are at most {LARGEST_COEFFICIENT} in size "
                "(those of SD 1.4 are 0.08, 0.44, 1.01)"
            )
        if isinstance(self.tau, tuple) and len(self.tau) != 3:
            raise InputError(
                f"tau has {len(self.tau)} numbers; give one factor, or the three coefficients a,b,c"
            )
        if isinstance(self.tau, (int, float)) and not 0 < self.tau <= 20:
            raise InputError(f"tau is {self.tau}; a fixed factor must be above 0 and at most 20")

    def for_model(self, defaults: Mapping[str, Any]) -> Mast:
        """With the coefficients that were fitted on the model, or on SD 1.4."""
        if not self.sts or self.tau is not None:
            return self
        return replace(self, tau=tuple(defaults.get("mast", {}).get("tau") or sts.SD_COEFFICIENTS))

    def model_notes(self, model: str, calibrated: bool) -> list[str]:
        if calibrated or not self.sts or self.tau != sts.SD_COEFFICIENTS:
            return []
        return [f"sharpness (tau) was fitted on SD 1.4, not on {model}; `mast analyze calibrate` fits it"]

    @property
    def tau_rule(self) -> TauRule:
        """How each head's sharpening factor is found (Sec. 3.4); 1 when STS is off."""
        if not self.sts:
            return 1.0
        if isinstance(self.tau, (int, float)):
            return float(self.tau)
        return partial(sts.tau_from_gap, coefficients=self.tau or sts.SD_COEFFICIENTS)

    def start(self, scene: Scene) -> Tensor:
        """Eq. 2: region by region, the content's noise with the statistics of its style's."""
        noises = [style.trajectory.noise for style in scene.styles]
        weights = [style.weight for style in scene.styles]
        return regional_adain(scene.content.trajectory.noise, noises, scene.masks[scene.latent], weights)

    def attend(self, scene: Scene, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.joint(scene, site, query).output.unsqueeze(0)

    def joint(self, scene: Scene, site: Site, query: Tensor) -> Joint:
        """Eq. 3, 4-6 and 7-9 at one site; query: (1, heads, tokens, d)."""
        content = scene.content_at(site)
        styles, own = self.partitions(scene, site, query, content)
        masses = self.masses(scene, site) if self.lama else None
        return joint_attention(styles, own, masses, self.tau_rule, content.statistics)

    def partitions(
        self, scene: Scene, site: Site, query: Tensor, content: SiteFeatures
    ) -> tuple[list[Partition], Partition]:
        """The styles, asked by the blended query (Eq. 3), and the content, asked by its own."""
        assert content.query is not None
        blended = self.lam * content.query + (1 - self.lam) * query[0].float()
        styles = [Partition(blended, *style.key_value()) for style in scene.styles_at(site)]
        return styles, Partition(content.query, *content.key_value())

    def masses(self, scene: Scene, site: Site) -> Tensor:
        """Eq. 4 on the site's grid, (N + 1, tokens), content last."""
        return lama.target_masses(scene.masks_at(site), self.pi, self.mass_floor)

    def residual(self, scene: Scene, site: Site, branch: Tensor) -> Tensor:
        if not self.ddi:
            return branch
        content = scene.content_at(site).residual
        assert content is not None
        return ddi.inject(branch, content.to(branch.dtype), self.r)


@dataclass(frozen=True)
class SharedAttention(Mast):
    """The base row of the ablation: one softmax over all concatenated keys (Eq. 1), no masses, no
    sharpening, no detail.
    """

    lama: bool = False
    sts: bool = False
    ddi: bool = False

    name = "shared"
    about = "plain shared attention over all styles, the paper's base: masks only choose the start"
