"""BPC: linear style transfer by partial convolutions, which read nothing but the region (Seyed, Cansever and
Hart 2026, https://arxiv.org/abs/2508.05769).

The networks are those of Li et al. 2019 (https://arxiv.org/abs/1808.04537): VGG to relu4_1, a module that
learns a 32x32 matrix from the covariances of photo and style, and a decoder. What the authors changed, and
what their published code does, is the masking; its feathering experiments are not published. A soft mask
serves as a feathered one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...weights.checkpoints import find_checkpoint, load_checked, read_checkpoint
from .network import FeedForward
from .vgg import CHANNELS, MIRRORED, STAGES, refuse_tiny

PAGE = "https://github.com/davidmhart/StyleTransferMasked"
FILES = {"encoder": "vgg_r41.pth", "decoder": "dec_r41.pth", "matrix": "r41.pth"}
SIZE = 32  # of the learned matrix, and the channels that features are compressed to
CELL = 8  # pixels of a relu4_1 cell


class PartialConv(nn.Conv2d):
    """A convolution that sees its input only where the mask, dilated by one cell, is; zeros elsewhere.

    Unlike the inpainting layer it is named after, it does not rescale by the share of visible cells.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (1, c, h, w), mask (1, 1, h, w) in [0, 1] -> (1, c', h, w), less what the padding lacks."""
        return super().forward(x if mask is None else x * F.max_pool2d(mask, 3, 1, 1))


def reflected(x: Tensor) -> Tensor:
    return F.pad(x, (1, 1, 1, 1), mode="reflect")


def grown(mask: Tensor) -> Tensor:
    """A padded mask (1, 1, h + 2, w + 2) after a 3x3 convolution: (1, 1, h, w), one cell wider."""
    return F.conv2d(mask, mask.new_ones(1, 1, 3, 3)).clamp(0, 1)


class _Stack(nn.Module):
    """3x3 partial convolutions conv{first}, conv{first + 1}, ... with reflected borders."""

    def __init__(self, first: int, widths: Sequence[int]):
        super().__init__()
        for number, (entering, leaving) in enumerate(pairwise(widths), first):
            self.add_module(f"conv{number}", PartialConv(entering, leaving, 3))

    def step(self, number: int, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One convolution, and the mask it leaves."""
        convolution = self.get_submodule(f"conv{number}")
        if mask is None:
            return convolution(reflected(x)), None
        padded = reflected(mask)
        return convolution(reflected(x), padded), grown(padded)


class BPCEncoder(_Stack):
    """VGG-19 to relu4_1; the mask grows by a cell at every convolution and is pooled as the features are."""

    def __init__(self) -> None:
        super().__init__(2, (3, *chain(*STAGES[:3]), CHANNELS["relu4_1"]))
        self.conv1 = PartialConv(3, 3, 1)

    def forward(
        self, picture: Tensor, mask: Tensor | None = None, leaked: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """picture (1, 3, h, w), mask (1, 1, h, w) -> features (1, 512, h/8, w/8) and their mask.

        leaked: the mask is another picture's, and the first convolution does not know it yet.
        """
        x = self.conv1(picture, None if leaked else mask)
        for number in range(2, 11):
            x, mask = self.step(number, x, mask)
            x = F.relu(x)
            if number in (3, 5, 9):
                x = F.max_pool2d(x, 2)
                mask = None if mask is None else F.max_pool2d(mask, 2)
        return x, mask


class BPCDecoder(_Stack):
    """AdaIN's decoder of relu4_1, its convolutions partial. Each size starts from the region's own mask
    again, for a mask that is enlarged with the features would have steps.
    """

    def __init__(self) -> None:
        super().__init__(11, (CHANNELS["relu4_1"], *chain(*MIRRORED), 3))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """features (1, 512, h, w), the region's mask (1, 1, 8h, 8w) -> picture (1, 3, 8h, 8w)."""
        here: Tensor | None = None
        for number in range(11, 20):
            if number in (12, 16, 18):
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            if mask is not None and number in (11, 12, 16, 18):
                here = F.interpolate(mask, size=x.shape[-2:], mode="bilinear")
            x, here = self.step(number, x, here)
            x = F.relu(x) if number < 19 else x
        return x


class _Covariance(nn.Module):
    """Features to half a matrix: compressed by three convolutions, their covariance, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        widths = (CHANNELS["relu4_1"], 256, 128, SIZE)
        layers = [[PartialConv(a, b, 3, padding=1), nn.ReLU()] for a, b in pairwise(widths)]
        self.convs = nn.Sequential(*list(chain(*layers))[:-1])
        self.fc = nn.Linear(SIZE * SIZE, SIZE * SIZE)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(1, 512, h, w), (1, 1, h, w) -> (32, 32)."""
        for layer in self.convs:
            x = layer(x, mask) if isinstance(layer, PartialConv) else layer(x)
        cells = inside(x, mask)
        return self.fc((cells @ cells.T / cells.shape[1]).flatten()).view(SIZE, SIZE)


def inside(x: Tensor, mask: Tensor | None) -> Tensor:
    """The cells of x (1, c, h, w) where the mask is above 0, as (c, n)."""
    return x[0].flatten(1) if mask is None else x[0][:, mask[0, 0] > 0]


class Matrix(nn.Module):
    """The learned linear transformation of compressed, centred features (Li et al. 2019, Eq. 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.snet, self.cnet = _Covariance(), _Covariance()
        self.compress = PartialConv(CHANNELS["relu4_1"], SIZE, 1)
        self.unzip = PartialConv(SIZE, CHANNELS["relu4_1"], 1)

    def forward(
        self, content: Tensor, style: Tensor, mask: Tensor | None = None, style_mask: Tensor | None = None
    ) -> Tensor:
        """content (1, 512, h, w), style (1, 512, h', w') and their masks, as the encoder leaves them ->
        (1, 512, h, w). Outside the mask nothing but `unzip`'s bias is left.
        """
        centred, _ = self._centred(content, mask)
        style_centred, style_mean = self._centred(style, style_mask)
        matrix = self.snet(style_centred, style_mask) @ self.cnet(centred, mask)
        moved = torch.einsum("ij,bjhw->bihw", matrix, self.compress(centred, mask))
        if mask is None:
            return self.unzip(moved) + style_mean
        where = (mask > 0).to(moved.dtype)
        return self.unzip(moved * where, mask) + style_mean * where

    @staticmethod
    def _centred(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """x less the mean of the cells in the mask, and that mean (1, c, 1, 1).

        Cells outside stay as they are, although the convolutions of `cnet` see one ring of them: so the
        authors do it.
        """
        mean = inside(x, mask).mean(1).view(1, -1, 1, 1)
        return (x - mean if mask is None else torch.where(mask > 0, x - mean, x)), mean


@dataclass(frozen=True)
class BPC(FeedForward):
    """weights: the folder of vgg_r41.pth, dec_r41.pth and r41.pth, or one of them; else mast's own.

    released: as the authors' code does with photo and style of one size. Their convolutions keep the mask of
    the picture before, the photo's, for a picture of that size without one: the style is encoded under it,
    and then counted as a whole, blank cells included. Of another size, or with a mask of its own, it is not.
    """

    weights: str | None = None
    released: bool = False

    name = "bpc"
    about = "linear style transfer by partial convolutions: nothing outside the region is read"
    family = "regional-single"
    needs = f"its own weights ({', '.join(FILES.values())})"
    licence = "MIT"
    reference = (
        "Seyed, Cansever, Hart: Improving Masked Style Transfer Using Blended Partial Convolution, "
        "IEEE Access 2026"
    )
    released_changes = "a style of the photo's size is encoded under the photo's mask"

    def load(self) -> dict[str, nn.Module]:
        way_out = (
            f"its authors link it on {PAGE}; put {', '.join(FILES.values())} there, or into a folder of your "
            "own and name it: --method bpc:weights=FOLDER"
        )
        paths = {
            part: find_checkpoint(self.weights, (file,), f"BPC's {part}", way_out)
            for part, file in FILES.items()
        }
        networks = {"encoder": BPCEncoder(), "decoder": BPCDecoder(), "matrix": Matrix()}
        return {
            part: load_checked(network, read_checkpoint(paths[part]), paths[part], f"BPC's {part}")
            for part, network in networks.items()
        }

    @torch.inference_mode()
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        """As the authors do, the photo itself is left where the mask is not."""
        for picture in (content, styles[0]):
            refuse_tiny(picture, CELL)
        height, width = content.shape[-2:]
        mask = masks[None, :1].to(content.dtype)
        photo, region = _to_cells(content), _to_cells(mask)
        style, style_mask = _to_cells(styles[0]), None
        if style_masks[0] is not None:
            style_mask = _to_cells(style_masks[0][None, None].to(content.dtype))
        features, grown_mask = self.network("encoder")(photo, region)
        if self.released and style_mask is None and style.shape == photo.shape:
            style_features, _ = self.network("encoder")(style, region, leaked=True)
        else:
            style_features, style_mask = self.network("encoder")(style, style_mask)
        moved = self.network("matrix")(features, style_features, grown_mask, style_mask)
        painted = self.network("decoder")(moved, region)[..., :height, :width]
        return mask * painted + (1 - mask) * content


def _to_cells(x: Tensor) -> Tensor:
    """Repeats the last row and column until the sides are whole relu4_1 cells; (1, c, h, w)."""
    height, width = x.shape[-2:]
    return F.pad(x, (0, -width % CELL, 0, -height % CELL), mode="replicate")
