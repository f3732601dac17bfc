"""The patch autoencoder of the embedded model: a fixed linear encoder and a learned decoder.

The encoder projects every 8x8 RGB patch on its scaled principal components. It is never trained, so a U-Net
that works on its latents stays valid while the decoder improves.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, autocast, nn, zeros

from ..configs import read_patch
from ..parts import filled, read_tensors


class Residual(nn.Module):
    """x + conv(silu(conv(silu(x)))), which starts as the identity."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.silu(self.first(F.silu(x))))


class PatchAutoencoder(nn.Module):
    """encode: image (b, 3, h, w) in [-1, 1] -> latent (b, c, h/8, w/8).

    decode: the linear inverse plus a learned refinement.
    """

    mean: Tensor
    analysis: Tensor
    synthesis: Tensor

    def __init__(
        self,
        channels: int = 16,
        patch: int = 8,
        widths: Sequence[int] = (160, 96, 64, 32),
        depths: Sequence[int] = (3, 2, 2, 1),
        scaling_factor: float = 1.0,
    ):
        super().__init__()
        if patch != 2 ** (len(widths) - 1):
            raise ValueError(
                f"{len(widths)} widths enlarge {2 ** (len(widths) - 1)} times, the patch is {patch} pixels"
            )
        self.channels, self.patch, self.scaling_factor = channels, patch, scaling_factor
        size = patch * patch * 3
        self.register_buffer("mean", zeros(size))
        self.register_buffer("analysis", zeros(size, channels))
        self.register_buffer("synthesis", zeros(channels, size))
        self.enter = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.stages = nn.ModuleList(
            nn.Sequential(*[Residual(width) for _ in range(depth)])
            for width, depth in zip(widths, depths, strict=True)
        )
        self.grow = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b * 4, 1), nn.PixelShuffle(2)) for a, b in pairwise(widths)
        )
        self.leave = nn.Conv2d(widths[-1], 3, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    @property
    def reach(self) -> int:
        """How many cells around it a decoded cell depends on: half the receptive field, rounded up."""
        depths = [len(stage) for stage in self.stages]  # type: ignore[arg-type]
        pixels = [2 * depth * self.patch / 2**i for i, depth in enumerate(depths)]
        return math.ceil((self.patch + sum(pixels) + 1) / self.patch)

    @classmethod
    def from_folder(cls, folder: Path) -> "PatchAutoencoder":
        """Reads config.json and patch_autoencoder.safetensors; stored in 16 bits, computed in 32."""
        config = read_patch(folder / "config.json")
        weights = read_tensors(folder / "patch_autoencoder.safetensors")
        return filled(lambda: cls(**config), weights, folder, "the autoencoder of its config")

    def encode(self, image: Tensor) -> Tensor:
        """Image (b, 3, h, w) -> latent (b, channels, h/patch, w/patch)."""
        b, _, h, w = image.shape
        p = self.patch
        patches = (
            image.reshape(b, 3, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, h // p, w // p, -1)
        )
        return ((patches - self.mean) @ self.analysis).permute(0, 3, 1, 2).contiguous() * self.scaling_factor

    def invert(self, latent: Tensor) -> Tensor:
        """The linear part of `decode`: the image (b, 3, h, w) that the components alone describe."""
        b, _, h, w = latent.shape
        p = self.patch
        # Most of the picture is this product: where a training halves the bits, it keeps all of them.
        with autocast(latent.device.type, enabled=False):
            patches = (latent / self.scaling_factor).permute(0, 2, 3, 1) @ self.synthesis + self.mean
        return patches.view(b, h, w, p, p, 3).permute(0, 5, 1, 3, 2, 4).reshape(b, 3, h * p, w * p)

    def decode(self, latent: Tensor) -> Tensor:
        """Latent (b, channels, h, w) -> image (b, 3, h*patch, w*patch)."""
        x = self.enter(latent / self.scaling_factor)
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i < len(self.grow):
                x = self.grow[i](x)
        return self.invert(latent) + self.leave(F.silu(x))
