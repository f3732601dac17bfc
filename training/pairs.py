"""What the U-Net does with a partner picture: five modes, and the attention that lends keys and values.

A batch is rows of pairs: picture, partner, picture, partner, ... Both have the same noise level. In the six
self-attention layers that style transfer controls, a row may see keys and values that are not its own. A
small generative model hardly reacts to those unless it was trained with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.attention_processor import Attention
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

SITES = tuple(f"up_blocks.{b}.attentions.{a}.transformer_blocks.0.attn1" for b in (2, 3) for a in (0, 1, 2))

Lending = Literal["own", "both", "swapped", "partner's"]


@dataclass(frozen=True)
class Mode:
    """Whose keys and values the rows of a pair see, and the timesteps at which that is trained."""

    lending: Lending
    lowest: int = 0
    highest: int = 1000


# The v that leads from a disturbed picture to the undisturbed one grows as 1 / noise: at low levels it would
# outweigh all other batches. At the highest levels VGG would judge a blur.
MODES = {
    "self": Mode("own"),
    "concat": Mode("both"),
    "swap": Mode("swapped"),
    "restyle": Mode("partner's", lowest=250),
    "stylize": Mode("partner's", lowest=150, highest=850),
}


@dataclass
class Pairing:
    """The lending in force; one object, shared by the processors of all six sites."""

    lending: Lending = "own"


class PairedAttention:
    """Self-attention over rows that come in pairs. With `own` it is plain self-attention."""

    def __init__(self, pairing: Pairing):
        self.pairing = pairing

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
    ) -> Tensor:
        """hidden_states (b, tokens, c) -> (b, tokens, c)."""
        query, key, value = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
        key, value = lend(key, self.pairing.lending), lend(value, self.pairing.lending)
        out = F.scaled_dot_product_attention(
            *(x.unflatten(2, (attn.heads, -1)).transpose(1, 2) for x in (query, key, value))
        )
        return attn.to_out[0](out.transpose(1, 2).flatten(2))


def lend(x: Tensor, lending: Lending) -> Tensor:
    """Keys or values (b, n, c) of rows in pairs -> those that each row is to see, (b, n or 2n, c)."""
    if lending == "own":
        return x
    pairs = x.unflatten(0, (-1, 2))
    if lending == "partner's":
        return pairs[:, 1:].expand_as(pairs).flatten(0, 1)
    swapped = pairs.flip(1).flatten(0, 1)
    return swapped if lending == "swapped" else torch.cat([x, swapped], 1)


def pair_attention(unet: UNet2DConditionModel) -> Pairing:
    """Puts the control into the six sites and returns the object that steers it."""
    pairing = Pairing()
    wanted = {f"{site}.processor" for site in SITES}
    processors: dict[str, Any] = dict(unet.attn_processors)
    if missing := wanted - processors.keys():
        raise ValueError(f"this U-Net has no {', '.join(sorted(missing))}: it must be built as SD 1.x is")
    unet.set_attn_processor(processors | {name: PairedAttention(pairing) for name in wanted})
    return pairing


def arrange(
    mode: str, image: Tensor, encode: Callable[[Tensor], Tensor], rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Pairs of crops (b, 3, h, w) -> latents to predict and latents to add noise to, (b, c, h/8, w/8)."""
    if mode == "stylize":  # the partner is to be another picture
        image = image.clone()
        image[1::2] = image[1::2].roll(1, 0)
    clean = encode(image)
    given = clean.clone()
    if mode == "restyle":
        given[::2] = disturb(image[::2], encode, rng)
    elif mode == "stylize" and rng.random() < 0.7:  # as style transfer starts: with AdaIN
        given[::2] = match_statistics(clean[::2], clean[1::2])
    return clean, given


def disturb(image: Tensor, encode: Callable[[Tensor], Tensor], rng: np.random.Generator) -> Tensor:
    """Another appearance for the same structure: images (n, 3, h, w), n > 1 -> latents (n, c, h/8, w/8).

    Fine texture may become another picture's or vanish; colours become another picture's, random, or grey.
    """
    n, kind = len(image), rng.random()
    if rng.random() < 0.6:
        coarse = blur(image, float(rng.uniform(1.5, 6)))
        fine = another(image - coarse, rng) if rng.random() < 0.7 else torch.zeros(())
        image = (coarse + fine).clamp(-1, 1)
    if kind < 0.5:
        latent = encode(image)
        return match_statistics(latent, another(latent, rng))
    if kind < 0.8:
        mix = torch.from_numpy(np.eye(3) + 0.45 * rng.standard_normal((n, 3, 3))).float()
        shift = torch.from_numpy(0.3 * rng.standard_normal((n, 3, 1, 1))).float()
        return encode((torch.einsum("bchw,bcd->bdhw", image, mix) + shift).clamp(-1, 1))
    return encode(image.mean(1, keepdim=True).expand(-1, 3, -1, -1))


def another(x: Tensor, rng: np.random.Generator) -> Tensor:
    """For each of the n > 1 rows a different row of the same batch."""
    return x.roll(int(rng.integers(1, len(x))), 0)


def match_statistics(latent: Tensor, other: Tensor) -> Tensor:
    """AdaIN: `latent` (b, c, h, w) with the channel means and deviations of `other`."""
    mean, std = latent.mean((2, 3), keepdim=True), latent.std((2, 3), keepdim=True) + 1e-3
    other_mean, other_std = other.mean((2, 3), keepdim=True), other.std((2, 3), keepdim=True) + 1e-3
    return (latent - mean) / std * other_std + other_mean


def blur(image: Tensor, sigma: float) -> Tensor:
    """Gaussian blur of images (b, 3, h, w), mirrored at the border."""
    radius = int(3 * sigma)
    kernel = torch.exp(-(torch.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(3, 1, 1, -1)
    rows = F.conv2d(F.pad(image, (radius, radius, 0, 0), "reflect"), kernel, groups=3)
    return F.conv2d(F.pad(rows, (0, 0, radius, radius), "reflect"), kernel.transpose(2, 3), groups=3)
