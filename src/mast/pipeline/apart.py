"""The runs of a method that knows one style: one per region, by themselves or in one batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..backbone.instrument import controlled
from ..backbone.sites import Site
from ..core import ddim
from ..methods.method import DiffusionMethod, InScene, OnDenoise, Scene
from .windows import WORKSPACE


def sample_apart(method: DiffusionMethod, scenes: Sequence[Scene], after: OnDenoise) -> list[Tensor]:
    """The latents of a single-style method, a region at a time or, where it pays, in one batch."""
    if can_share_passes(method, scenes):
        return list(sample_together(method, scenes, after).split(1))
    return [method.sample(scene, after) for scene in scenes]


def can_share_passes(method: DiffusionMethod, scenes: Sequence[Scene]) -> bool:
    """Whether the scenes should, and can, be denoised as one batch.

    On a GPU one pass over N latents costs far less than N passes. On a CPU it costs as much, and the bits of
    a convolution depend on the size of its batch, so there the runs go one by one.
    """
    device = scenes[0].backbone.device
    alone = len(scenes) < 2 or scenes[0].passes > 1
    if alone or device.type != "cuda" or not method.plain_loop:
        return False
    h, w = scenes[0].latent
    width = scenes[0].backbone.unet.config.block_out_channels[0]
    return len(scenes) * WORKSPACE * 4 * width * h * w < torch.cuda.mem_get_info(device)[0] // 2


@torch.inference_mode()
def sample_together(
    method: DiffusionMethod, scenes: Sequence[Scene], on_step: OnDenoise | None = None
) -> Tensor:
    """`method.sample` of every scene, in one batch; (N, c, h, w). The scenes share their photo."""
    first, schedule = scenes[0], scenes[0].schedule
    z = torch.cat([s.taken_up.noisy if s.taken_up is not None else method.start(s) for s in scenes])
    for i, to in method.denoising_path(first):
        first.set_step(i)
        for scene in scenes[1:]:
            scene.set_step(i, same_photo=first)
        with controlled(first.backbone.unet, first.backbone.sites, _Each(method, scenes)):
            prediction = first.backbone.predict(z, schedule.timesteps[i])
        z, x0 = ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)
        z = torch.cat([method.after_step(scene, one) for scene, one in zip(scenes, z.split(1), strict=True)])
        for one, clean in zip(z.split(1), x0.split(1), strict=True):
            if on_step is not None:
                changed = on_step(i, one, clean)
                if changed is not None:
                    one.copy_(changed)
    return z


class _Each:
    """One control per latent of a batch."""

    def __init__(self, method: DiffusionMethod, scenes: Sequence[Scene]):
        self.controls = [InScene(method, scene) for scene in scenes]

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        rows = zip(self.controls, query.split(1), key.split(1), value.split(1), strict=True)
        return torch.cat([control.attend(site, q, k, v) for control, q, k, v in rows])

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        rows = zip(self.controls, branch.split(1), strict=True)
        return torch.cat([control.residual(site, one) for control, one in rows])
