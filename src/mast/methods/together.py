"""The runs of a single-style method, one per region, as one batch.

On a GPU one pass over N latents costs far less than N passes. On a CPU it costs as much, and the bits of a
convolution depend on the size of its batch, so there the runs go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..backbone.instrument import controlled
from ..backbone.sites import Site
from ..core import ddim
from .method import InScene, Method, OnDenoise, Scene

WORKSPACE = 64  # float32 maps at the latent's size and the U-Net's first width that one latent's pass holds


def worth_it(method: Method, scenes: Sequence[Scene]) -> bool:
    """Whether the scenes should, and can, share their passes."""
    device = scenes[0].backbone.device
    if len(scenes) < 2 or device.type != "cuda" or type(method).sample is not Method.sample:
        return False
    h, w = scenes[0].latent
    width = scenes[0].backbone.unet.config.block_out_channels[0]
    return len(scenes) * WORKSPACE * 4 * width * h * w < torch.cuda.mem_get_info(device)[0] // 2


@torch.inference_mode()
def sample_together(method: Method, scenes: Sequence[Scene], on_step: OnDenoise | None = None) -> Tensor:
    """`method.sample` of every scene, in one batch; (N, c, h, w). The scenes share their photo."""
    first, schedule = scenes[0], scenes[0].schedule
    z = torch.cat([method.start(scene) for scene in scenes])
    for i, to in method.way(first):
        first.turn(i)
        for scene in scenes[1:]:
            scene.turn(i, beside=first)
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

    def __init__(self, method: Method, scenes: Sequence[Scene]):
        self.controls = [InScene(method, scene) for scene in scenes]

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        rows = zip(self.controls, query.split(1), key.split(1), value.split(1), strict=True)
        return torch.cat([control.attend(site, q, k, v) for control, q, k, v in rows])

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        rows = zip(self.controls, branch.split(1), strict=True)
        return torch.cat([control.residual(site, one) for control, one in rows])
