"""StyleGallery: a latent that is optimised until its attention looks like the styles' (He et al., CVPR 2026).

The latent is a clean one, shown to the U-Net as it is at timesteps that fall from noisy to clean, one step of
Adam at each (as in Attention Distillation, Zhou et al., CVPR 2025, https://arxiv.org/abs/2502.20235). With
the photo and the styles shown in the same way, the loss is, summed over the six sites,

    sum_i mean | M_i (Attention(q, k, v) - Attention(1.5 q, K_i, V_i)) |  +  0.26 mean | q - q_c |

where the styles' attention is a target that is not differentiated. It begins at the inverted photo, each cell
normalised over its channels, which takes its colours away. Whatever no region covers has the photo itself for
a style, at temperature 1; in the authors' code every place has one.

A style mask leaves its keys out. With `auto` the given masks are not used and `matching` finds regions and
partners by itself. `released` does as the authors' code does: the inversion that the start comes from has 15
moves and ends at t = 925; keys and values outside a partial style are set to 0, so that they still take part;
and clusters whose colours are near become one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.instrument import Identity, StopForward, controlled
from ..backbone.sites import Site
from ..core.ddim import Schedule
from ..job import InputError
from .correspondence import nearest_step
from .matching import LOOKS, matched, short_inversion
from .method import DiffusionMethod, OnDenoise, Reference, Scene
from .semantics import KNOWN, is_here
from .styleid import check_temperature

MOST_STEPS = 1000
COVERED = 1e-4  # how much of a cell may be nobody's before the photo is asked about it


@dataclass(frozen=True)
class StyleGallery(DiffusionMethod):
    """steps: of the optimisation. rate: Adam's learning rate. content_weight: of the loss between queries.

    temperature: multiplies the logits of the styles. auto: find regions in the photo and their partners in
    the styles by clustering, whatever masks are given. clusters: the most regions it may find. semantic: a
    DINOv2 folder that takes part in the matching; "auto" takes one from the local hub cache where there is
    one, "none" never does. Nothing is downloaded. released: start, partial styles and clusters as in the
    authors' code.
    """

    steps: int = 150
    rate: float = 0.05
    content_weight: float = 0.26
    temperature: float = 1.5
    auto: bool = False
    clusters: int = 10
    semantic: str = "auto"
    released: bool = False

    name = "stylegallery"
    about = "optimises the picture until its attention in each region is that of the region's style"
    reference = "He, Ye, Liu, Wu, Liu, Cai: StyleGallery, CVPR 2026"
    released_changes = (
        "starts at t = 925; keys outside a partial style are zero, not left out; clusters of near colours "
        "merge"
    )

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("steps", self.steps, 0, MOST_STEPS),
            ("clusters", self.clusters, 2, 50),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name} is {value}; it must be a whole number from {low} to {high}")
        if not (math.isfinite(self.rate) and 0 < self.rate <= 1):
            raise InputError(f"rate is {self.rate}; it must be above 0 and at most 1 (the authors use 0.05)")
        if not (math.isfinite(self.content_weight) and 0 <= self.content_weight <= 100):
            raise InputError(f"content_weight is {self.content_weight}; it must be from 0 to 100")
        check_temperature(self.temperature)

    def model_notes(self, model: str, calibrated: bool) -> list[str]:
        if not self.auto or self.semantic != "auto" or is_here():
            return []
        return [
            "no DINOv2 model is here, and StyleGallery's matching counts it most: partners were chosen by "
            "diffusion features and place alone, which is not the authors' method; "
            f"hf download {KNOWN[0]}, or name a folder with stylegallery:semantic=FOLDER"
        ]

    def reported_steps(self, schedule: Schedule) -> int:
        """How often `sample` reports a step; the inversion of a released start counts as well."""
        return self._updates(schedule) + (LOOKS if self.released and not schedule.whole else 0)

    def _updates(self, schedule: Schedule) -> int:
        """Steps of Adam; a run that goes on from a smaller picture makes fewer."""
        return round(self.steps * len(schedule) / schedule.whole_length)

    def start(self, scene: Scene) -> Tensor:
        """The inverted photo, every cell with mean 0 and deviation 1 over its channels."""
        return _without_colours(scene.content.trajectory.noise.clone())

    def sample(self, scene: Scene, on_step: OnDenoise | None = None) -> Tensor:
        if self.auto:
            scene = matched(scene, self.clusters, self.semantic, self.released)
        # Gradients must flow, whatever mode the caller is in.
        with torch.inference_mode(False), torch.enable_grad():
            if scene.taken_up is not None:
                first = scene.taken_up.clean.clone()
            else:
                first = self._start_as_released(scene, on_step) if self.released else self.start(scene)
            latent = first.requires_grad_()
            adam = torch.optim.Adam([latent], lr=self.rate)
            timesteps = scene.backbone.schedule(self.steps).timesteps if self.steps else ()
            timesteps = timesteps[: self._updates(scene.schedule)]
            for t in reversed(timesteps):
                adam.zero_grad()
                self.loss(scene, latent, t).backward()
                adam.step()
                if on_step is not None:
                    now = latent.detach().clone()
                    changed = on_step(nearest_step(scene.schedule, t), now, now)
                    if changed is not None:
                        latent.data.copy_(changed)
            return latent.detach()

    def _start_as_released(self, scene: Scene, on_step: OnDenoise | None) -> Tensor:
        """`start` from the short inversion; each of its passes is reported, with the photo for a picture."""
        trajectory = scene.content.trajectory

        def tell(t: int) -> None:
            if on_step is not None:
                on_step(nearest_step(scene.schedule, t), trajectory.noise, trajectory.clean)

        return _without_colours(short_inversion(scene, scene.content, on_pass=tell).noise.clone())

    def loss(self, scene: Scene, latent: Tensor, t: int) -> Tensor:
        """What is minimised, a scalar, for a clean latent (1, c, h, w) shown at timestep t."""
        photo = _look(scene, scene.content, t)
        seen = {id(style.trajectory): style for style in scene.styles}
        looks = {key: _look(scene, style, t) for key, style in seen.items()}
        styles = [looks[id(style.trajectory)] for style in scene.styles]
        control = _Loss(self, scene, photo, styles)
        with controlled(scene.backbone.unet, scene.backbone.sites, control):
            scene.backbone.visit(latent, t)
        return torch.stack(control.terms).sum()

    def style_term(
        self, out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, hot: float
    ) -> Tensor:
        """mean |M (out - Attention(hot q, K, V))|, only looked at where there is a mask.

        out, query: (heads, tokens, d); key, value: (heads, keys, d); mask: (tokens,).
        """
        rows = mask.nonzero().squeeze(1)
        with torch.no_grad():
            asked = hot * query.index_select(1, rows)
            target = F.scaled_dot_product_attention(asked[None], key[None], value[None])[0]
        difference = (out.index_select(1, rows) - target).abs()
        return (difference * mask[rows].view(1, -1, 1)).sum() / out.numel()


def _without_colours(noise: Tensor) -> Tensor:
    """(1, c, h, w) with mean 0 and deviation 1 over the channels of every cell."""
    return (noise - noise.mean(1, keepdim=True)) / (noise.std(1, keepdim=True) + 1e-8)


@dataclass
class _Seen:
    query: Tensor
    key: Tensor
    value: Tensor


class _Watch(Identity):
    """Keeps queries, keys and values (heads, tokens, d) by site, and ends the pass at the last one."""

    def __init__(self, last: int):
        self.last, self.seen = last, dict[int, _Seen]()

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.seen[site.index] = _Seen(query[0].float(), key[0].float(), value[0].float())
        if site.index == self.last:
            raise StopForward
        return super().attend(site, query, key, value)


@torch.no_grad()
def _look(scene: Scene, reference: Reference, t: int) -> dict[int, _Seen]:
    """What the U-Net sees in a picture's clean latent at timestep t, by site."""
    sites = scene.backbone.sites
    watch = _Watch(sites[-1].index)
    with controlled(scene.backbone.unet, sites, watch):
        scene.backbone.visit(reference.trajectory.clean.clone(), t)
    return watch.seen


class _Loss(Identity):
    """Collects the loss of every site while the latent passes, and ends the pass at the last one."""

    def __init__(
        self, method: StyleGallery, scene: Scene, photo: dict[int, _Seen], styles: Sequence[dict[int, _Seen]]
    ):
        self.method, self.scene, self.photo, self.styles = method, scene, photo, styles
        self.terms: list[Tensor] = []

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = super().attend(site, query, key, value)
        out, own, photo = output[0].float(), query[0].float(), self.photo[site.index]
        self.terms.append(self.method.content_weight * (own - photo.query).abs().mean())
        masks = self.scene.masks_at(site)
        hot = self.method.temperature
        for mask, style, reference in zip(masks, self.styles, self.scene.styles, strict=True):
            key_, value_ = style[site.index].key, style[site.index].value
            keep = reference.keep.get(site.grid(reference.latent))
            if keep is not None and self.method.released:
                inside = torch.zeros_like(key_[:1, :, :1]).index_fill(1, keep, 1)
                key_, value_ = key_ * inside, value_ * inside
            elif keep is not None:
                key_, value_ = key_.index_select(1, keep), value_.index_select(1, keep)
            self.terms.append(self.method.style_term(out, own, key_, value_, mask, hot))
        rest = 1 - masks.sum(0)
        if float(rest.max()) > COVERED:
            rest = rest * (rest > COVERED)
            self.terms.append(self.method.style_term(out, own, photo.key, photo.value, rest, 1.0))
        if site.index == self.scene.backbone.sites[-1].index:
            raise StopForward
        return output
