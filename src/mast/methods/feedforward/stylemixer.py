"""Style Mixer (Huang, Zhang and Liao 2019, https://arxiv.org/abs/1910.13093): several styles in one picture,
each region of the photo rebuilt from the patches of one style.

    pyramid  = relu3_1, relu4_1, relu5_1 on the grid of relu4_1, weighed by channel, squeezed to 512
    swap(s)  = W (A g(pyramid_s)),   A = softmax over 3x3 patches of theta(norm(c)) and phi(norm(s))
    picture  = decoder(pyramid_c + sum_i M_i swap(s_i) + M_c swap(c))

The masks M are given (the paper's protocol for regional-multi methods), or found: the photo's relu4_1 is
clustered by feature and place, and each cluster takes the style whose patches fit it best.

Module names are those of the authors' code (zxhuang97/Official-implementation-StyleMixer). Their file could
not be had where this was written: names and shapes are checked, pictures were never compared. Masks on
photo or style are an addition; so is M_c swap(c) where no style is wanted, which is what the authors' own
strength control fades to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.masks import area_resample
from ...job import InputError
from ...weights.checkpoints import find_checkpoint, load_checked, read_checkpoint
from ..clustering import lloyd
from .attention import attended_mean, covered, large_enough, normalise, tokens
from .network import FeedForward
from .vgg import LAYERS, Vgg, VGGDecoder

FILE = "iter_80000.pth.tar"
WHAT = "StyleMixer's network"
WAY_OUT = (
    "its authors publish it at https://storage.googleapis.com/stylemixer/iter_80000.pth.tar (see "
    "https://github.com/zxhuang97/Official-implementation-StyleMixer); put it there, or name its folder as "
    "`weights`"
)
PATCH = 3
ROUNDS = 200  # of k-means, at most
SEED = 100  # of its first centres
# The authors' script offers a weight of 3 for the place in k-means, but its call leaves it at 1.
PLACE_WEIGHT = 1.0
ROUNDING = 1e-6  # less mass than this is no mass
PHOTO_SIZE, STYLE_SIZE = 512, 448  # px of the shorter sides in the authors' script

Maps: TypeAlias = tuple[Tensor, Tensor]  # of one picture: relu4_1 and the pyramid, each (1, 512, h, w)


class PatchAttention(nn.Module):
    """Rebuilds content cells from style cells whose 3x3 surroundings fit theirs."""

    def __init__(self, channels: int = 512, inner: int = 256):
        super().__init__()
        self.CA = nn.ParameterDict({"scale": torch.ones(PATCH * PATCH)})  # how much each neighbour counts
        self.theta = nn.Conv2d(channels, inner, 1)
        self.phi = nn.Conv2d(channels, inner, 1)
        self.g = nn.Conv2d(channels, inner, 1)
        self.W = nn.Conv2d(inner, channels, 1)

    def forward(
        self,
        content: Tensor,
        style: Tensor,
        pyramid: Tensor,
        rows: Tensor | None = None,
        cells: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """content (1, c, h, w), style and its pyramid (1, c, h', w') -> the content cells `rows` rebuilt from
        the style cells `cells`, (n, c), and how well they fit, (n,). None is all cells.
        """
        query = self._patches(self.theta(normalise(content)), rows)
        key = self._patches(self.phi(normalise(style, cells)), cells)
        value = tokens(self.g(pyramid))
        found, fit = attended_mean(query, key, value if cells is None else value[cells])
        return F.linear(found, self.W.weight.flatten(1), self.W.bias), fit

    def _patches(self, feature: Tensor, cells: Tensor | None) -> Tensor:
        """(1, c, h, w) -> (n, 9 c), borders reflected."""
        unfolded = F.unfold(F.pad(feature, (PATCH // 2,) * 4, mode="reflect"), PATCH)[0].T
        chosen = unfolded if cells is None else unfolded[cells]
        return (chosen.unflatten(1, (-1, PATCH * PATCH)) * self.CA["scale"]).flatten(1)


class ChannelAttention(nn.Module):
    """Each channel times a factor in (0, 1) that depends on all channels' means."""

    def __init__(self, channels: int):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // 2, bias=False),
            nn.ReLU(),
            nn.Linear(channels // 2, channels, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, feature: Tensor) -> Tensor:
        """(b, c, h, w) -> the same shape."""
        factor: Tensor = self.fc(feature.mean((2, 3)))
        return feature * factor[..., None, None]


class Pyramid(nn.Module):
    """relu3_1, relu4_1 and relu5_1 in one map."""

    def __init__(self) -> None:
        super().__init__()
        self.latlayer1 = nn.Conv2d(256, 256, 1)
        self.latlayer2 = nn.Conv2d(512, 256, 1)
        self.latlayer3 = nn.Conv2d(512, 256, 1)
        self.channel_attention = ChannelAttention(3 * 256)
        self.squeeze = nn.Conv2d(3 * 256, 512, 3)

    def forward(self, third: Tensor, fourth: Tensor, fifth: Tensor) -> Tensor:
        """The three maps -> (b, 512, h, w) on the grid of relu4_1."""

        def resized(level: Tensor) -> Tensor:
            return F.interpolate(level, fourth.shape[2:], mode="bilinear", align_corners=True)

        levels = [resized(self.latlayer1(third)), self.latlayer2(fourth), resized(self.latlayer3(fifth))]
        weighed = self.channel_attention(torch.cat(levels, 1))
        squeezed: Tensor = self.squeeze(F.pad(weighed, (1, 1, 1, 1), mode="reflect"))
        return squeezed


class Mixer(nn.Module):
    """The whole network, encoder included, as it stands in the authors' file."""

    def __init__(self) -> None:
        super().__init__()
        modules = list(Vgg())
        ends = [0, *(number + 1 for number in LAYERS.values())]
        self.encoder = nn.ModuleList(nn.Sequential(*modules[a:b]) for a, b in pairwise(ends))
        self.non_local = PatchAttention()
        self.feature_pyramid = Pyramid()
        self.amplifier = nn.ParameterDict({"scale": torch.full((1,), 2.0)})  # only their training uses it
        self.decoder = VGGDecoder()

    def encode(self, picture: Tensor) -> Maps:
        """(1, 3, h, w) in [0, 1] -> relu4_1 and the pyramid."""
        found = []
        for stage in self.encoder:
            picture = stage(picture)
            found.append(picture)
        return found[3], self.feature_pyramid(*found[2:])

    def mix(
        self, content: Maps, styles: Sequence[Maps], masks: Tensor, parts: Sequence[Tensor | None]
    ) -> Tensor:
        """Every cell rebuilt from the styles that its masks (N, h, w) name; (1, 512, h, w). parts: the cells
        of each style that count.
        """
        feature, pyramid = content
        mixed = torch.zeros_like(tokens(feature))
        remainder = (1 - masks.sum(0, keepdim=True)).clamp_min(0)
        sources = zip(
            [*styles, content], torch.cat([masks, remainder]).flatten(1), [*parts, None], strict=True
        )
        for (style, style_pyramid), mask, part in sources:
            rows = (mask > ROUNDING).nonzero().squeeze(1)
            if len(rows) > 0:
                swapped, _ = self.non_local(feature, style, style_pyramid, rows, part)
                mixed[rows] += mask[rows].unsqueeze(1) * swapped
        return pyramid + mixed.T.reshape(pyramid.shape)

    def match(
        self, content: Maps, styles: Sequence[Maps], parts: Sequence[Tensor | None], clusters: int
    ) -> Tensor:
        """The masks (N, h, w), 0 or 1, that the network itself would choose."""
        feature, _ = content
        fits = [
            self.non_local(feature, *style, None, part)[1] for style, part in zip(styles, parts, strict=True)
        ]
        labels = cluster(feature, clusters)
        return choose(labels, torch.stack(fits)).unflatten(1, feature.shape[2:])


def cluster(feature: Tensor, count: int) -> Tensor:
    """k-means on a map (1, c, h, w): the cluster of every cell, (h w,).

    A cell is as far from a centre as the square of their features' distance plus that of their places, in
    cells. The first centres are drawn as in k-means++, always the same way: the authors draw any cells, the
    same one twice if it so happens.
    """
    height, width = feature.shape[2:]
    features = tokens(feature)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    points = torch.cat([features, torch.stack([columns, rows], -1).flatten(0, 1).to(features)], 1)

    def distances(points: Tensor, centres: Tensor) -> Tensor:
        (seen, place), (other, at) = ((x[:, :-2], x[:, -2:]) for x in (points, centres))
        squares = seen.square().sum(1, keepdim=True) - 2 * seen @ other.T + other.square().sum(1)
        return squares.clamp_min(0) + PLACE_WEIGHT * torch.cdist(place, at)

    generator = torch.Generator().manual_seed(SEED)
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    while len(chosen) < min(count, len(points)):
        nearest = distances(points, points[chosen]).amin(1)
        nearest[chosen] = 0
        chosen.append(int(torch.multinomial(nearest.cpu(), 1, generator=generator)))
    return lloyd(points, points[chosen], ROUNDS, distances)[0]


def choose(labels: Tensor, fits: Tensor) -> Tensor:
    """Each cluster to the style that fits it best in sum: labels (n,), fits (N, n) -> (N, n), 0 or 1."""
    masks = torch.zeros_like(fits)
    for index in labels.unique():
        members = labels == index
        masks[fits[:, members].sum(1).argmax(), members] = 1
    return masks


@dataclass(frozen=True)
class StyleMixer(FeedForward):
    """weights: the folder of the authors' file. auto: find the regions, with this many clusters, and ignore
    the masks given on the photo; masks on styles still hold. released: styles are shown smaller than the
    photo, as the authors' script does: 448 px on the shorter side where the photo has 512.
    """

    name = "stylemixer"
    about = "rebuilds each region from 3x3 patches of its style's VGG features; can match regions by itself"
    family = "regional-multi"
    needs = "its own weights (one file)"
    licence = "none stated"
    reference = (
        "Huang, Zhang, Liao: Style Mixer: Semantic-aware Multi-Style Transfer Network, Pacific Graphics 2019"
    )
    released_changes = "styles at 448 px where the photo has 512"

    weights: str | None = None
    auto: bool = False
    clusters: int = 6
    released: bool = False

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise InputError(f"clusters is {self.clusters}; it must be 1 or more")

    def load(self) -> dict[str, nn.Module]:
        path = find_checkpoint(self.weights, (FILE,), WHAT, WAY_OUT)
        return {"mixer": load_checked(Mixer(), read_checkpoint(path), path, WHAT)}

    @torch.inference_mode()
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        if self.released:
            shorter = round(min(content.shape[2:]) * STYLE_SIZE / PHOTO_SIZE)
            styles = [_resized(style, shorter) for style in styles]
        large_enough(content, styles)
        mixer: Mixer = self.network("mixer")
        photo, seen = mixer.encode(content), [mixer.encode(style) for style in styles]
        parts = [
            None if mask is None else covered(mask, feature)
            for mask, (feature, _) in zip(style_masks, seen, strict=True)
        ]
        grid = (photo[0].shape[2], photo[0].shape[3])
        chosen = mixer.match(photo, seen, parts, self.clusters) if self.auto else area_resample(masks, grid)
        picture = mixer.decoder(mixer.mix(photo, seen, chosen, parts))
        return picture[..., : content.shape[2], : content.shape[3]]


def _resized(picture: Tensor, shorter: int) -> Tensor:
    """(1, 3, h, w) with so many pixels on its shorter side, its shape kept."""
    height, width = picture.shape[2:]
    scale = shorter / min(height, width)
    size = (round(height * scale), round(width * scale))
    return F.interpolate(picture, size, mode="bilinear", antialias=True).clamp(0, 1)
