"""Makers of tiny real models and small pictures; conftest.py turns them into fixtures."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from mast import Backbone, Job, Method, Progress, Result, Settings, stylize

UNET = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": (32, 32, 64, 64),
    "layers_per_block": 2,
    "cross_attention_dim": 32,
    "attention_head_dim": 8,
    "norm_num_groups": 32,
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
}
SCHEDULER = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
}


def make_unet(seed: int = 0, **changes: object):
    """A U-Net of Stable Diffusion's layout with random weights, and attention that is far from flat."""
    from diffusers import UNet2DConditionModel

    torch.manual_seed(seed)
    unet = UNet2DConditionModel(**{**UNET, **changes}).eval().requires_grad_(False)
    for name, weight in unet.named_parameters():
        if ".attn1.to_q." in name or ".attn1.to_k." in name:
            weight.mul_(4)
    return unet


def write_tokenizer(folder: Path, places: int = 8) -> int:
    """A CLIP tokenizer of a few letters in CLIP's own files; the last two words are begin and end.

    Returns how many words it has.
    """
    folder.mkdir(parents=True)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = [*letters, *[letter + "</w>" for letter in letters], "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    named = {"bos_token": words[-2], "eos_token": words[-1], "unk_token": words[-1], "pad_token": words[-1]}
    (folder / "special_tokens_map.json").write_text(json.dumps(named))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": places, **named})
    )
    return len(words)


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours with some edges: a photo as far as these models can tell."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8))
    image = np.array(coarse.resize((width, height), Image.Resampling.BICUBIC))
    image[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, 3)
    return Image.fromarray(image)


def halves(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Two masks, left and right, that tile a picture."""
    left = np.zeros((height, width), np.float32)
    left[:, : width // 2] = 1
    return left, 1 - left


# ------------------------------------------------------------------------------------------------ runs


@dataclass
class Run:
    """A finished run, the latent it ended at, which shows more than 8-bit pixels do, and all it reported."""

    result: Result
    latent: torch.Tensor
    progress: list[Progress]

    @property
    def pixels(self) -> np.ndarray:
        return np.asarray(self.result.image)

    def same_bits(self, other: Run) -> bool:
        return torch.equal(self.latent, other.latent) and np.array_equal(self.pixels, other.pixels)


def run(job: Job, backbone: Backbone, method: Method | str = "mast", **options: Any) -> Run:
    """`stylize`, watched; 3 steps at 64 px unless said. Options that are no settings go to `stylize`."""
    known = {f.name for f in fields(Settings)}
    settings = Settings(**{"steps": 3, "size": 64, **{k: v for k, v in options.items() if k in known}})
    progress: list[Progress] = []
    others = {k: v for k, v in options.items() if k not in known}
    result = stylize(job, backbone, method, settings, on_step=progress.append, **others)
    return Run(result, progress[-1].latent, progress)
