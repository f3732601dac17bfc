"""A MobileSAM checkpoint of the right names and shapes whose numbers come from the names: always the same."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from mast.regions.sam.model import Network


def random_tensors() -> dict[str, Tensor]:
    """Scaled so that signals neither vanish nor explode."""
    made = {}
    for name, like in Network().state_dict().items():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        noise = torch.randn(like.shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            made[name] = torch.zeros_like(like)
        elif name.endswith("running_var"):
            made[name] = 1 + 0.5 * noise.tanh()
        elif like.ndim == 1:
            made[name] = (1.0 if name.endswith("weight") else 0.0) + 0.1 * noise
        elif name.endswith("attention_biases") or "gaussian" in name:
            made[name] = noise
        else:
            made[name] = noise * (1.5 / max(1, like[0].numel())) ** 0.5
    return made


def write_checkpoint(path: Path) -> Path:
    torch.save(random_tensors(), path)
    return path


def rings(width: int = 96, height: int = 64) -> Image.Image:
    """A picture with something in it."""
    ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    far = ((xs - 30) ** 2 + (ys - 40) ** 2).float().sqrt()
    pixels = torch.stack([127 + 120 * (far / 5).sin(), 2.0 * xs, 255 - 3.0 * ys], -1)
    return Image.fromarray(pixels.clamp(0, 255).byte().numpy())
