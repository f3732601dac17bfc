"""What the U-Net does with a partner picture: five modes, and the control that lends keys and values.

A batch is rows of pairs: picture, partner, picture, partner, ... Both have the same noise level. In the six
self-attention layers that style transfer controls, a row may see keys and values that are not its own. A
small generative model hardly reacts to those unless it was trained with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mast.backbone.instrument import Identity
from mast.backbone.sites import Site
from mast.core.adain import adain

Lending = Literal["own", "both", "swapped", "partner's", "masses"]


@dataclass(frozen=True)
class Mode:
    """Whose keys and values the rows of a pair see, and the timesteps at which that is trained.

    side: of the crops that a whole batch consists of; larger ones come in smaller batches.
    """

    lending: Lending
    lowest: int = 0
    highest: int = 1000
    side: int = 192


# The v that leads from a disturbed picture to the undisturbed one grows as 1 / noise: at low levels it would
# outweigh all other batches. At high levels VGG would judge a blur; texture comes late. VGG and the decoder
# are dear.
MODES = {
    "self": Mode("own"),
    "concat": Mode("both"),
    "swap": Mode("swapped"),
    "restyle": Mode("partner's", lowest=250),
    "stylize": Mode("masses", lowest=30, highest=550, side=128),
}


@dataclass
class Pairing(Identity):
    """The lending in force, as a control of the six sites. With `own` it changes nothing.

    masses: a picture row gives its partner's keys the share `mass` of its attention, sharpened by `tau`, and
    its own keys the rest, as LAMA does with one style; a partner row sees itself.
    """

    lending: Lending = "own"
    mass: float = 1.0
    tau: float = 1.0

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Queries, keys and values (b, heads, tokens, d) of rows in pairs -> (b, heads, tokens, d)."""
        if self.lending != "masses":
            return super().attend(site, query, lend(key, self.lending), lend(value, self.lending))
        own = super().attend(site, query, key, value)
        picture = super().attend(site, query[::2] * self.tau, key[1::2], value[1::2])
        mixed = self.mass * picture + (1 - self.mass) * own[::2]
        return torch.stack([mixed, own[1::2]], 1).flatten(0, 1)


def lend(x: Tensor, lending: Lending) -> Tensor:
    """Keys or values (b, ..., n, d) of rows in pairs -> those each row is to see, (b, ..., n or 2n, d)."""
    if lending == "own":
        return x
    pairs = x.unflatten(0, (-1, 2))
    if lending == "partner's":
        return pairs[:, 1:].expand_as(pairs).flatten(0, 1)
    swapped = pairs.flip(1).flatten(0, 1)
    return swapped if lending == "swapped" else torch.cat([x, swapped], -2)


def arrange(
    mode: str, image: Tensor, encode: Callable[[Tensor], Tensor], rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Pairs of crops (b, 3, h, w) -> latents to predict, and latents to add noise to, (b, c, h/8, w/8)."""
    clean = encode(image)
    given = clean.clone()
    if mode == "restyle":
        given[::2] = disturb(image[::2], encode, rng)
    elif mode == "stylize" and rng.random() < 0.7:  # as style transfer starts
        given[::2] = adain(clean[::2], clean[1::2])
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
        return adain(latent, another(latent, rng))
    if kind < 0.8:
        mix = torch.from_numpy(np.eye(3) + 0.45 * rng.standard_normal((n, 3, 3))).float()
        shift = torch.from_numpy(0.3 * rng.standard_normal((n, 3, 1, 1))).float()
        return encode((torch.einsum("bchw,bcd->bdhw", image, mix) + shift).clamp(-1, 1))
    return encode(image.mean(1, keepdim=True).expand(-1, 3, -1, -1))


def another(x: Tensor, rng: np.random.Generator) -> Tensor:
    """For each of the n > 1 rows a different row of the same batch."""
    return x.roll(int(rng.integers(1, len(x))), 0)


def blur(image: Tensor, sigma: float) -> Tensor:
    """Gaussian blur of images (b, 3, h, w), mirrored at the border."""
    radius = int(3 * sigma)
    kernel = torch.exp(-(torch.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(3, 1, 1, -1)
    rows = F.conv2d(F.pad(image, (radius, radius, 0, 0), "reflect"), kernel, groups=3)
    return F.conv2d(F.pad(rows, (0, 0, radius, radius), "reflect"), kernel.transpose(2, 3), groups=3)
