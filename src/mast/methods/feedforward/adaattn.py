"""Any-to-Any (Liu, Ye and Wang 2023, https://arxiv.org/abs/2304.09728): AdaAttN (Liu et al. 2021,
https://arxiv.org/abs/2108.03647) whose attention is told which part of the style picture a region may see.

Every cell of the photo's VGG map asks the cells of the style's, and takes on the mean and the deviation of
what it attends to:

    A = softmax(f(k_c) g(k_s)^T),   M = A h(s),   S = sqrt(A h(s)^2 - M^2),   output = S * norm(c) + M

where norm() is zero mean and unit variance per channel, and a key k is norm() of all VGG maps up to the
layer. It is done at relu3_1, relu4_1 and relu5_1. Queries inside the region see only the keys inside the
style mask; queries outside of it see all of them, so without a style mask this is AdaAttN.

Module names are those of the authors' code (Huage001/AdaAttN and Huage001/Transfer-Any-Style). Their files
could not be had where this was written: names and shapes are checked, pictures were never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...job import InputError
from ...weights.checkpoints import find_checkpoint, load_checked, read_checkpoint
from .attention import attended_statistics, covered, large_enough, normalise, tokens, touched
from .network import FeedForward
from .vgg import CHANNELS, Vgg, load_vgg
from .vgg import VGGDecoder as Mirror

MAX_SAMPLE = 64 * 64  # keys looked at in relu3_1; the deeper layers take 256 x 256, which is all of them
SEED = 6666  # of the choice among more keys than that, as in the authors' test script

# By which name depends on the archive: the code was renamed after the first of them was published.
LAYER_FILES = ("latest_net_adaattn_3.pth", "latest_net_attn_adain_3.pth")
VGG_FILES = ("vgg_normalised.pth", "vgg_normalized.pth")
WAY_OUT = (
    "its authors publish it in ckpt.zip, linked from the README of https://github.com/Huage001/"
    "Transfer-Any-Style (or AdaAttN_model.zip of https://github.com/Huage001/AdaAttN); put its files there, "
    "or name their folder as `weights`"
)


class AdaAttN(nn.Module):
    """One layer's adaptive attention normalisation."""

    def __init__(self, planes: int, key_planes: int, max_sample: int = 256 * 256):
        super().__init__()
        self.f = nn.Conv2d(key_planes, key_planes, 1)
        self.g = nn.Conv2d(key_planes, key_planes, 1)
        self.h = nn.Conv2d(planes, planes, 1)
        self.max_sample = max_sample

    def forward(
        self,
        content: Tensor,
        style: Tensor,
        content_key: Tensor,
        style_key: Tensor,
        region: Tensor | None = None,
        part: Tensor | None = None,
        content_cells: Tensor | None = None,
        sample_first: bool = False,
    ) -> Tensor:
        """content (1, c, h, w), its key (1, k, h, w), style (1, c, h', w'), its key (1, k, h', w') -> (1, c,
        h, w).

        part: the style cells that the content cells `region` may see; content_cells: those over which the
        content is normalised. Each (n,); None is all. sample_first: choose among the keys before the part is
        taken of them, as the authors do.
        """
        query, key, value = tokens(self.f(content_key)), tokens(self.g(style_key)), tokens(self.h(style))
        every = torch.arange(len(query), device=query.device)
        anything = torch.arange(len(key), device=key.device)
        inside = torch.ones_like(every, dtype=torch.bool)
        if region is not None:
            inside.zero_()[region] = True
        mean = torch.empty(len(query), value.shape[1], device=value.device)
        deviation = torch.empty_like(mean)
        for rows, may_see in (
            (every[inside], anything if part is None else part),
            (every[~inside], anything),
        ):
            if len(rows) > 0:
                asked, seen = query[rows], self._sampled(anything if sample_first else may_see)
                if sample_first:
                    left = seen[torch.isin(seen, may_see)]
                    # Of a small part nothing may be left: theirs then attends to all keys alike.
                    asked, seen = (asked, left) if len(left) else (torch.zeros_like(asked), seen)
                mean[rows], deviation[rows] = attended_statistics(asked, key[seen], value[seen])
        size = content.shape[1:]
        return deviation.T.reshape(1, *size) * normalise(content, content_cells) + mean.T.reshape(1, *size)

    def _sampled(self, keys: Tensor) -> Tensor:
        """At most max_sample of these cells, chosen once and for all. The authors choose before they mask;
        of a small part that may leave nothing, so ours takes the part first.
        """
        if len(keys) <= self.max_sample:
            return keys
        order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(SEED))
        return keys[order[: self.max_sample].to(keys.device)]


KEY_PLANES = {
    layer: sum(list(CHANNELS.values())[: i + 1]) for i, layer in enumerate(CHANNELS)
}  # a key holds its layer's map and all shallower ones


class Transformer(nn.Module):
    """relu4_1 and relu5_1, each through its AdaAttN, merged on the grid of relu4_1."""

    def __init__(self) -> None:
        super().__init__()
        self.attn_adain_4_1 = AdaAttN(512, KEY_PLANES["relu4_1"])
        self.attn_adain_5_1 = AdaAttN(512, KEY_PLANES["relu5_1"])
        self.merge_conv = nn.Conv2d(512, 512, 3)

    def merge(self, fourth: Tensor, fifth: Tensor) -> Tensor:
        """(1, 512, h, w) and (1, 512, h/2, w/2), halves rounded up -> (1, 512, h, w)."""
        height, width = fourth.shape[2:]
        enlarged = F.interpolate(fifth, scale_factor=2, mode="nearest")[..., :height, :width]
        merged: Tensor = self.merge_conv(F.pad(fourth + enlarged, (1, 1, 1, 1), mode="reflect"))
        return merged


class AdaAttNDecoder(nn.Module):
    """AdaIN's decoder, joined by what relu3_1 became once it has that grid."""

    def __init__(self) -> None:
        super().__init__()
        modules = list(Mirror())
        self.decoder_layer_1 = nn.Sequential(*modules[:4])
        self.decoder_layer_2 = nn.Sequential(modules[4], nn.Conv2d(256 + 256, 256, 3), *modules[6:])

    def forward(self, merged: Tensor, third: Tensor) -> Tensor:
        """(1, 512, h, w) and (1, 256, 2h, 2w), or a cell less -> (1, 3, 8h, 8w), or 4 px less."""
        height, width = third.shape[2:]
        up = self.decoder_layer_1(merged)[..., :height, :width]
        picture: Tensor = self.decoder_layer_2(torch.cat([up, third], 1))
        return picture


def keys(maps: Mapping[str, Tensor], layer: str, cells: Tensor | None = None) -> Tensor:
    """norm() of all maps up to the layer, on its grid: (1, KEY_PLANES[layer], h, w)."""
    grid = maps[layer].shape[2:]
    layers = list(CHANNELS)[: list(CHANNELS).index(layer) + 1]
    return torch.cat([normalise(F.interpolate(maps[name], grid), cells) for name in layers], 1)


@dataclass(frozen=True)
class AnyToAny(FeedForward):
    """weights: the folder of the authors' files. statistics: norm() of whole pictures ("image"), as its
    authors do, or of the photo over the region and of the style over its mask ("region"). released: of more
    keys than AdaAttN looks at it chooses some before it takes the style mask's part of them.
    """

    name = "any-to-any"
    about = "AdaAttN's attention on VGG features, between a region and its part of the style picture"
    family = "regional-single"
    needs = "its own weights (AdaAttN's files)"
    licence = "Apache-2.0 (AdaAttN)"
    reference = (
        "Liu, Ye, Wang: Any-to-Any Style Transfer: Making Picasso and Da Vinci Collaborate, 2023; AdaAttN: "
        "Liu et al., ICCV 2021"
    )
    released_changes = "keys are sampled before a style mask is applied"
    stride = 16  # so that every VGG grid is twice the next; other sizes work, but not as in the authors' code

    weights: str | None = None
    statistics: str = "image"
    released: bool = False

    def __post_init__(self) -> None:
        if self.statistics not in ("region", "image"):
            raise InputError(f"statistics is {self.statistics!r}; choose one of region, image")

    def load(self) -> dict[str, nn.Module]:
        third = AdaAttN(CHANNELS["relu3_1"], KEY_PLANES["relu3_1"], MAX_SAMPLE)
        loaded = {
            "adaattn_3": self._part(third, LAYER_FILES, "AdaAttN's layer for relu3_1"),
            "transformer": self._part(
                Transformer(), ("latest_net_transformer.pth",), "AdaAttN's transformer"
            ),
            "decoder": self._part(AdaAttNDecoder(), ("latest_net_decoder.pth",), "AdaAttN's decoder"),
        }
        # The encoder is AdaIN's: the authors' copy, or else the one that mast itself can fetch.
        own = self.weights is not None and any((Path(self.weights) / file).is_file() for file in VGG_FILES)
        return {"vgg": load_vgg(self.weights if own else None), **loaded}

    def _part(self, network: nn.Module, files: Sequence[str], what: str) -> nn.Module:
        path = find_checkpoint(self.weights, files, what, WAY_OUT)
        # Transfer-Any-Style calls the transformer's layers ada_attn, AdaAttN itself calls them attn_adain.
        tensors = {
            name.replace("ada_attn_", "attn_adain_"): value for name, value in read_checkpoint(path).items()
        }
        return load_checked(network, tensors, path, what)

    @torch.inference_mode()
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        large_enough(content, styles)
        vgg: Vgg = self.network("vgg")
        photo, style = vgg.maps(content), vgg.maps(styles[0])

        def layer(name: str, attention: AdaAttN) -> Tensor:
            region = touched(masks[0], photo[name])
            part = None if style_masks[0] is None else covered(style_masks[0], style[name])
            counted, counted_style = (region, part) if self.statistics == "region" else (None, None)
            return attention(
                photo[name],
                style[name],
                keys(photo, name, counted),
                keys(style, name, counted_style),
                None if part is None else region,
                part,
                counted,
                self.released,
            )

        transformer: Transformer = self.network("transformer")
        merged = transformer.merge(
            layer("relu4_1", transformer.attn_adain_4_1), layer("relu5_1", transformer.attn_adain_5_1)
        )
        picture = self.network("decoder")(merged, layer("relu3_1", self.network("adaattn_3")))
        return picture[..., : content.shape[2], : content.shape[3]]
