"""AdaIN: VGG's relu4_1 features of the photo take the mean and deviation of the style's, and a decoder paints
them (Huang and Belongie 2017, https://arxiv.org/abs/1703.06868).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.adain import weighted_moments
from ...job import InputError
from ..method import Family, unit_interval
from .network import FeedForward
from .vgg import load_decoder, load_vgg

EPSILON = 1e-5  # added to the variance, as the authors do; it keeps channels that are all but dead quiet
CELL = 8  # pixels of a relu4_1 cell


def on_cells(masks: Tensor) -> Tensor:
    """masks (n, h, w) -> (n, h/8, w/8), rounded up: the average over the pixels that a relu4_1 cell has."""
    return F.avg_pool2d(masks.unsqueeze(0).float(), CELL, ceil_mode=True, count_include_pad=False)[0]


def statistics(features: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and deviation per channel, each (1, c, 1, 1), of features (1, c, h, w).

    weight: (h, w) in [0, 1], the cells that count; None counts them all.
    """
    if weight is None:
        weight = features.new_ones(features.shape[-2:])
    mean, variance = weighted_moments(features, weight)
    return mean, (variance + EPSILON).sqrt()


def transfer(
    content: Tensor, style: Tensor, weight: Tensor | None = None, style_weight: Tensor | None = None
) -> Tensor:
    """Eq. 8 of AdaIN: the content's features (1, c, h, w) with the statistics of the style's (1, c, h', w').

    Content statistics are those of the cells in weight (h, w), the style's of those in style_weight.
    """
    mean, deviation = statistics(content, weight)
    style_mean, style_deviation = statistics(style, style_weight)
    return (content - mean) / deviation * style_deviation + style_mean


@dataclass(frozen=True)
class GlobalAdaIN(FeedForward):
    """One style for the whole photo. alpha: strength, 0 only decodes the photo's own features.

    weights: the folder of vgg_normalised.pth and decoder.pth, else where `mast weights fetch` puts them.
    """

    alpha: float = 1.0
    weights: str | None = None

    name = "adain-global"
    about = "AdaIN: VGG features with the style's mean and deviation, the whole photo, then composited"
    family: ClassVar[Family] = "global-single"
    needs = "its own weights (mast weights fetch adain-vgg adain-decoder)"
    reference = (
        "Huang, Belongie: Arbitrary Style Transfer in Real-time with Adaptive Instance Normalization, "
        "ICCV 2017"
    )

    def __post_init__(self) -> None:
        unit_interval("alpha", self.alpha)

    def load(self) -> dict[str, nn.Module]:
        return {"vgg": load_vgg(self.weights), "decoder": load_decoder(self.weights)}

    @torch.inference_mode()
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        """Encodes, mixes at relu4_1, decodes once. Poolings round up: any size goes in and comes out."""
        features = self._features(content)
        weights = [None if mask is None else on_cells(mask.unsqueeze(0))[0] for mask in style_masks]
        encoded = [self._features(style) for style in styles]
        # Written as a difference, so that alpha 0 and unassigned parts are the photo's own features.
        change = self.mix(features, encoded, on_cells(masks), weights) - features
        height, width = content.shape[-2:]
        painted: Tensor = self.network("decoder")(features + self.alpha * change)
        return painted[..., :height, :width]

    def mix(
        self, content: Tensor, styles: Sequence[Tensor], masks: Tensor, weights: Sequence[Tensor | None]
    ) -> Tensor:
        """Features content (1, c, h, w), styles (1, c, h_i, w_i); masks (N, h, w), weights (h_i, w_i)."""
        return transfer(content, styles[0], None, weights[0])

    def _features(self, picture: Tensor) -> Tensor:
        features: Tensor = self.network("vgg").maps(picture, "relu4_1")["relu4_1"]
        return features


@dataclass(frozen=True)
class AdaIN(GlobalAdaIN):
    """Every region in its own style (the paper's spatial control, Sec. 7.4): features are mixed by the masks,
    and decoded once, so that no compositor is needed. What no mask covers keeps its own features.

    statistics: the photo's, "region" over the region alone, or "image" over the whole photo, which keeps a
    dark region darker than a bright one.
    """

    statistics: str = "region"

    name = "adain"
    about = "AdaIN by region: each region's VGG features take its style's mean and deviation, one decode"
    family: ClassVar[Family] = "regional-multi"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.statistics not in ("region", "image"):
            raise InputError(f"statistics is {self.statistics!r}; choose one of region, image")

    def mix(
        self, content: Tensor, styles: Sequence[Tensor], masks: Tensor, weights: Sequence[Tensor | None]
    ) -> Tensor:
        mixed = (1 - masks.sum(0)) * content
        for style, mask, weight in zip(styles, masks, weights, strict=True):
            where = mask if self.statistics == "region" else None
            mixed = mixed + mask * transfer(content, style, where, weight)
        return mixed
