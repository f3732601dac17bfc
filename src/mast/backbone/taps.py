"""Reading what whole blocks of the U-Net put out: diffusion features, for correspondences and clusters.

`tapped` hangs a hook on each block and takes it away again, however it is left; the U-Net computes what it
always does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .backbone import Backbone
from .instrument import StopForward, exclusive


@contextmanager
def tapped(unet: nn.Module, blocks: Sequence[str], stop: bool = False) -> Iterator[dict[str, Tensor]]:
    """While inside, every pass leaves the blocks' outputs (b, c, h, w), detached, in the dict that is given.

    No other thread gets a pass meanwhile.
    stop: end the pass at the last of the blocks, which `Backbone.visit` takes for the end of its pass.
    """
    seen: dict[str, Tensor] = {}
    hooks = []
    with exclusive(unet):
        try:
            for name in blocks:
                last = stop and name == blocks[-1]
                hooks.append(unet.get_submodule(name).register_forward_hook(_keep(name, seen, last)))
            yield seen
        finally:
            for hook in hooks:
                hook.remove()


def _keep(name: str, seen: dict[str, Tensor], last: bool) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
        seen[name] = output.detach()
        if last:
            raise StopForward

    return hook


@torch.inference_mode()
def block_features(backbone: Backbone, latent: Tensor, t: int, blocks: Sequence[str]) -> dict[str, Tensor]:
    """The blocks' outputs, each (c, h, w) float32, for a latent (1, c, h, w) at timestep t.

    Name the blocks in the order in which they run: the pass ends at the last one.
    """
    with tapped(backbone.unet, blocks, stop=True) as seen:
        backbone.visit(latent, t)
    return {name: features[0].float() for name, features in seen.items()}
