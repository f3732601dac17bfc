"""A critic that learns to tell pictures of the U-Net from paintings, by what VGG sees in them.

Means and covariances of VGG's features say whose style a picture has. They do not say whether it could be a
painting at all: what all pictures of a model have in common, a softness or a weave, hardly moves them. So
small heads on VGG's frozen maps learn that difference while the U-Net learns to leave it out (a projected
GAN, hinge loss). Paintings are windows of the styles in use.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from mast.core.masks import area_resample
from training.precision import halved

CELLS = 32  # maps are shrunk to so many cells a side: a head judges textures, not pixels
WIDTH = 64
RATE = 1e-3
LATEST = 350  # out of more noise than at this timestep a blur is predicted, however good the model


class Critic:
    """Heads on maps of some numbers of channels, with their own optimizer."""

    def __init__(self, channels: Sequence[int]):
        self.heads = nn.ModuleList([head(c) for c in channels])
        self.scales = [torch.zeros(1, c, 1, 1) for c in channels]
        self.optimizer = torch.optim.Adam(self.heads.parameters(), lr=RATE, betas=(0.0, 0.99))

    def logits(self, maps: Sequence[Tensor], area: Tensor | None = None) -> Tensor:
        """Maps (b, c, h, w) of every tap -> (taps, b): above 0 for paintings. area (b, h', w'): how much each
        place counts; None for all alike.
        """
        found = []
        for x, scale, judge in zip(maps, self.scales, self.heads, strict=True):
            small = F.adaptive_avg_pool2d(x, min(CELLS, x.shape[-1])) / scale
            logit = judge(small)[:, 0]
            if area is None:
                found.append(logit.mean((1, 2)))
            else:
                weight = area_resample(area, (logit.shape[1], logit.shape[2]))
                found.append((logit * weight).sum((1, 2)) / weight.sum((1, 2)).clamp_min(1e-6))
        return torch.stack(found)

    def learn(
        self, painted: Sequence[Tensor], real: Sequence[Tensor], area: Tensor | None
    ) -> dict[str, float]:
        """One step towards telling maps of painted pictures from maps of paintings; what to log of it."""
        with halved(False), torch.enable_grad():
            for scale, x in zip(self.scales, real, strict=True):
                if not scale.any():  # the size of each channel, taken once
                    scale.copy_(x.pow(2).mean((0, 2, 3), keepdim=True).sqrt().clamp_min(1e-2))
            taken, meant = self.logits([x.detach() for x in painted], area), self.logits(real)
            loss = F.relu(1 + taken).mean() + F.relu(1 - meant).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return {"told apart": (meant.mean() - taken.mean()).item()}

    def __call__(self, painted: Sequence[Tensor], area: Tensor | None) -> Tensor:
        """How much the maps of pictures are not those of paintings, (b), with gradients to the pictures."""
        self.heads.requires_grad_(False)
        with halved(False):
            loss = -self.logits(painted, area).mean(0)
        self.heads.requires_grad_(True)
        return loss

    def state(self) -> dict[str, Any]:
        return {
            "heads": self.heads.state_dict(),
            "scales": self.scales,
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.heads.load_state_dict(state["heads"])
        self.scales = state["scales"]
        self.optimizer.load_state_dict(state["optimizer"])


def head(channels: int) -> nn.Sequential:
    """A map (b, c, h, w) -> logits (b, 1, h, w)."""
    return nn.Sequential(
        spectral_norm(nn.Conv2d(channels, WIDTH, 1)),
        nn.LeakyReLU(0.2),
        spectral_norm(nn.Conv2d(WIDTH, WIDTH, 3, padding=1)),
        nn.LeakyReLU(0.2),
        spectral_norm(nn.Conv2d(WIDTH, 1, 1)),
    )
