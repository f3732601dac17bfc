"""CoCoDiff: StyleID whose style knows which of its places belongs where (Nie et al., ICLR 2026,
https://openreview.net/forum?id=eRSuwB78LH).

1. Reversed stylization: the style image is repainted in the content's appearance, by StyleID with the roles
   exchanged, so that only what is shown differs from the content, not how.
2. Correspondences: for every place of the content the most similar place of that picture, by the cosine of
   diffusion features at t = 261, in the up-blocks that lead to the 32x32 and to the 64x64 sites.
3. StyleID again, where the style's keys and values at content place p get strength cos^2 times those of p's
   partner added, wherever the cosine is above a threshold.

In the authors' code the features are those of the decoded pictures with random noise, mean of eight; here
they are those of the latents that inversion and reversed stylization pass at the timestep nearest to 261, so
that a run has no randomness, and the reversed run ends there. `released` does as the authors do, with noise
that a recorded seed draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from ..backbone.sites import Site
from ..backbone.taps import block_features
from ..core.ddim import Schedule
from ..job import InputError
from .correspondence import best_matches, nearest_step, noisy_features, same_place
from .method import Grid, OnDenoise, Reference, Scene, unit_interval
from .styleid import StyleID, only_style

TIMESTEP = 261
NOISINGS = 8  # whose features the authors average


Features: TypeAlias = Mapping[str, Tensor]  # by block, (c, h, w)


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
    added, at the coarse sites and at the fine ones. gamma, temperature: as in StyleID.

    released: as in StyleID; the features that are matched are those of the finished pictures, mean of eight
    noisings, which `seed` draws; and fine_threshold holds everywhere after the first step, because the
    authors' loop overwrites the other one.
    """

    strength: float = 0.6
    threshold: float = 0.4
    fine_threshold: float = 0.55
    seed: int = 22

    name = "cocodiff"
    about = "StyleID with correspondences: matching parts of the style strengthen each other's places"
    licence = "none stated; see its page"
    reference = "Nie, Li, Tao, Wu, Wei, Zhao: CoCoDiff, ICLR 2026"
    released_changes = (
        "StyleID's; features of 8 noisings of the decoded picture; threshold 0.55 after the first step"
    )
    content_features = frozenset({"query", "key", "value"})
    style_features = frozenset({"query", "key", "value"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength <= 10:
            raise InputError(f"strength is {self.strength}; it must be from 0 to 10 (the authors use 0.6)")
        unit_interval("threshold", self.threshold)
        unit_interval("fine_threshold", self.fine_threshold)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise InputError(f"seed is {self.seed}; it must be a whole number, 0 or more")

    def reported_steps(self, schedule: Schedule) -> int:
        """How often `sample` reports a step: the reversed run counts as well, and so do looks at noise."""
        own = super().reported_steps(schedule)
        if self.released:
            return 2 * own + 2 * NOISINGS
        return own + max(1, len(schedule) - 1 - matched_step(schedule))

    @torch.inference_mode()
    def sample(self, scene: Scene, on_step: OnDenoise | None = None) -> Tensor:
        rendered = self._reversed(scene, on_step)
        blocks = list(dict.fromkeys(feature_block(site) for site in scene.backbone.sites))
        content, style = (self._looks_again if self.released else self._looks)(
            scene, rendered, blocks, on_step
        )
        partners = self._partners(scene, content, style, self.threshold)
        later = self._partners(scene, content, style, self.fine_threshold) if self.released else partners
        first, _ = self.denoising_path(scene)[0]
        paired = _Paired(self.gamma, self.temperature, self.released, first, partners, later)
        return paired.sample(scene, on_step)

    def _reversed(self, scene: Scene, on_step: OnDenoise | None) -> Tensor:
        """The style in the content's appearance, (1, c, h', w'): its latent at the matched timestep, or as
        released its clean one.
        """
        style = only_style(self, scene)
        grids = {style.latent, *(site.grid(style.latent) for site in scene.backbone.sites)}
        masks = {grid: torch.ones(1, *grid, device=scene.backbone.device) for grid in grids}
        exchanged = Scene(scene.backbone, scene.schedule, style, [scene.content], masks, style.latent)
        noise, clean = scene.content.trajectory.noise, scene.content.trajectory.clean
        until = matched_step(scene.schedule)

        def watch(step: int, latent: Tensor, x0: Tensor) -> None:
            if on_step is not None:
                # This latent is not the picture's: what is shown meanwhile is the photo.
                on_step(step, noise, clean)
            if step - 1 <= until and not self.released:
                raise _Reached(latent)

        try:
            return StyleID(self.gamma, self.temperature, self.released).sample(exchanged, watch)
        except _Reached as reached:
            return reached.latent

    def _looks(
        self, scene: Scene, rendered: Tensor, blocks: list[str], on_step: OnDenoise | None
    ) -> tuple[Features, Features]:
        """Features of the content and of the style's latent at the matched timestep, by block."""
        step = matched_step(scene.schedule)
        t = scene.schedule.timesteps[step]
        content = scene.content.trajectory.latents[step : step + 1]
        return (
            block_features(scene.backbone, content, t, blocks),
            block_features(scene.backbone, rendered, t, blocks),
        )

    def _looks_again(
        self, scene: Scene, rendered: Tensor, blocks: list[str], on_step: OnDenoise | None
    ) -> tuple[Features, Features]:
        """Features of the photo and of the finished picture, as the authors take them: both are noised eight
        times; the picture has been decoded, cut down to 8 bits and encoded before.
        """
        backbone, trajectory = scene.backbone, scene.content.trajectory
        t = min(TIMESTEP, backbone.scheduler.config.get("num_train_timesteps", 1000) - 1)
        near = nearest_step(scene.schedule, t)
        generator = torch.Generator().manual_seed(self.seed)

        def tell() -> None:
            if on_step is not None:
                on_step(near, trajectory.noise, trajectory.clean)

        picture = ((backbone.decode(rendered).clamp(-1, 1) + 1) * 127.5).floor() / 127.5 - 1
        content, style = (
            noisy_features(backbone, clean, t, blocks, generator, NOISINGS, tell)
            for clean in (trajectory.clean, backbone.encode(picture))
        )
        return content, style

    def _partners(
        self, scene: Scene, content: Features, style: Features, least: float
    ) -> Mapping[Grid, Partners]:
        """By grid of the style, who is added to whom; least: the threshold of the coarse sites."""
        finest = min(site.shrink for site in scene.backbone.sites)
        found: dict[Grid, Partners] = {}
        for site in scene.backbone.sites:
            grid, block = site.grid(scene.styles[0].latent), feature_block(site)
            if grid not in found:
                own = self.fine_threshold if site.shrink == finest else least
                found[grid] = self._pair(content[block], style[block], scene.styles[0], grid, own)
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
    """StyleID with partners added to the style's keys and values; later: those after the first step."""

    first: int = -1
    partners: Mapping[Grid, Partners] = field(default_factory=dict)
    later: Mapping[Grid, Partners] = field(default_factory=dict)

    def key_value(self, scene: Scene, site: Site) -> tuple[Tensor, Tensor]:
        key, value = super().key_value(scene, site)
        partners = self.partners if scene.step == self.first else self.later
        added = partners[site.grid(scene.styles[0].latent)]
        return added.join(key), added.join(value)


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
