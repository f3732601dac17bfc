"""CoCoDiff: StyleID whose style knows which of its places belongs where (Nie et al., ICLR 2026,
https://openreview.net/forum?id=eRSuwB78LH).

1. Reversed stylization: the style image is repainted in the content's appearance, by StyleID with the roles
   exchanged, so that only what is shown differs from the content, not how.
2. Correspondences: for every place of the content the most similar place of that picture, by the cosine of
   diffusion features at t = 261, in the up-blocks that lead to the 32x32 and to the 64x64 sites.
3. StyleID again, where the style's keys and values at content place p get strength cos^2 times those of p's
   partner added, wherever the cosine is above a threshold.

In the authors' code the features are those of the re-rendered picture with random noise, mean of eight; here
they are those of the latents that inversion and reversed stylization pass at the timestep nearest to 261, so
that a run has no randomness, and the reversed run ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbone.sites import Site
from ..backbone.taps import block_features
from ..core.ddim import Schedule
from ..job import InputError
from .correspondence import best_matches, nearest_step, same_place
from .method import OnDenoise, Reference, Scene, unit_interval
from .styleid import StyleID, only_style

TIMESTEP = 261
Grid = tuple[int, int]


@dataclass(frozen=True)
class Partners:
    """By key of the style, in the order of its keys: the key that is added to it, and how much of it.

    index, weight: (keys,); the weight is 0 where the correspondence is too weak.
    """

    index: Tensor
    weight: Tensor

    def join(self, tokens: Tensor) -> Tensor:
        """Keys or values (heads, keys, d) with their partners added."""
        return tokens + self.weight.view(1, -1, 1) * tokens.index_select(1, self.index)


@dataclass(frozen=True)
class CoCoDiff(StyleID):
    """strength: of the added keys and values. threshold, fine_threshold: the cosine below which nothing is
    added, at the coarse sites and at the fine ones. gamma, temperature, quirks: as in StyleID.
    """

    strength: float = 0.6
    threshold: float = 0.4
    fine_threshold: float = 0.55

    name = "cocodiff"
    about = "StyleID with correspondences: matching parts of the style strengthen each other's places"
    licence = "none stated; see its page"
    reference = "Nie, Li, Tao, Wu, Wei, Zhao: CoCoDiff, ICLR 2026"
    content_features = frozenset({"query", "key", "value"})
    style_features = frozenset({"query", "key", "value"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength <= 10:
            raise InputError(f"strength is {self.strength}; it must be from 0 to 10 (the authors use 0.6)")
        unit_interval("threshold", self.threshold)
        unit_interval("fine_threshold", self.fine_threshold)

    def reported_steps(self, schedule: Schedule) -> int:
        """How often `sample` reports a step: the reversed run counts as well."""
        first = len(schedule) - 2 if self.quirks else len(schedule) - 1
        return len(schedule) - 1 + max(1, first - matched_step(schedule))

    @torch.inference_mode()
    def sample(self, scene: Scene, on_step: OnDenoise | None = None) -> Tensor:
        rendered = self._reversed(scene, on_step)
        partners = self._partners(scene, rendered)
        paired = _Paired(self.gamma, self.temperature, self.quirks, partners)
        return paired.sample(scene, on_step)

    def _reversed(self, scene: Scene, on_step: OnDenoise | None) -> Tensor:
        """The latent (1, c, h', w') at the matched timestep of the style in the content's appearance."""
        style = only_style(self, scene)
        grids = {style.latent, *(site.grid(style.latent) for site in scene.backbone.sites)}
        masks = {grid: torch.ones(1, *grid, device=scene.backbone.device) for grid in grids}
        exchanged = Scene(scene.backbone, scene.schedule, style, [scene.content], masks, style.latent)
        noise, clean = scene.content.trajectory.noise, scene.content.trajectory.latents[:1]
        until = matched_step(scene.schedule)

        def watch(step: int, latent: Tensor, x0: Tensor) -> None:
            if on_step is not None:
                # This latent is not the picture's: what is shown meanwhile is the photo.
                on_step(step, noise, clean)
            if step - 1 <= until:
                raise _Reached(latent)

        try:
            StyleID(self.gamma, self.temperature, self.quirks).sample(exchanged, watch)
        except _Reached as reached:
            return reached.latent
        raise AssertionError("a run passes every timestep of its schedule")

    def _partners(self, scene: Scene, rendered: Tensor) -> Mapping[Grid, Partners]:
        """By grid of the style, who is added to whom."""
        step = matched_step(scene.schedule)
        t = scene.schedule.timesteps[step]
        blocks = list(dict.fromkeys(feature_block(site) for site in scene.backbone.sites))
        content = block_features(scene.backbone, scene.content.trajectory.latents[step : step + 1], t, blocks)
        style = block_features(scene.backbone, rendered, t, blocks)
        finest = min(site.shrink for site in scene.backbone.sites)
        found: dict[Grid, Partners] = {}
        for site in scene.backbone.sites:
            grid = site.grid(scene.styles[0].latent)
            if grid in found:
                continue
            block = feature_block(site)
            least = self.fine_threshold if site.shrink == finest else self.threshold
            found[grid] = self._pair(content[block], style[block], scene.styles[0], grid, least)
        return found

    def _pair(
        self, content: Tensor, style: Tensor, reference: Reference, grid: Grid, least: float
    ) -> Partners:
        """content: (c, h, w), style: (c, *grid), features of one block."""
        keep = reference.keep.get(grid)
        matches = best_matches(content, style, keep)
        # A key stands at the content's place that its own place in the style corresponds to; with a style
        # mask only some of the keys are there.
        h, w = content.shape[1:]
        places = same_place(grid, (h, w), content.device)
        places = places if keep is None else places.index_select(0, keep)
        cosine = matches.cosine[places]
        return Partners(matches.index[places], self.strength * cosine.pow(2) * (cosine >= least))


@dataclass(frozen=True)
class _Paired(StyleID):
    """StyleID with partners added to the style's keys and values."""

    partners: Mapping[Grid, Partners] | None = None

    def key_value(self, scene: Scene, site: Site) -> tuple[Tensor, Tensor]:
        assert self.partners is not None
        key, value = super().key_value(scene, site)
        partners = self.partners[site.grid(scene.styles[0].latent)]
        return partners.join(key), partners.join(value)


class _Reached(Exception):
    """The reversed run has come to the timestep that is wanted of it."""

    def __init__(self, latent: Tensor):
        self.latent = latent


def matched_step(schedule: Schedule) -> int:
    """The index of the timestep nearest to 261 that a run reaches; it starts at the last one."""
    return min(nearest_step(schedule, TIMESTEP), len(schedule) - 2)


def feature_block(site: Site) -> str:
    """The up-block whose output has the site's grid: the one before the site's own."""
    _, number, *_ = site.attention.split(".")
    return f"up_blocks.{int(number) - 1}"
