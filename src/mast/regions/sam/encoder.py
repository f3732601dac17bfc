"""MobileSAM's image encoder (Zhang et al. 2023, https://arxiv.org/abs/2306.14289): a TinyViT of 5 million
parameters (Wu et al. 2022, https://arxiv.org/abs/2207.10666) that learned from Segment Anything's encoder.

Its four stages see a picture of 1024 x 1024 pixels as maps of 256, 128, 64 and 64 cells a side: convolutions
in the first, attention inside windows in the others. Names of parameters are the published checkpoint's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CHANNELS = (64, 128, 160, 320)  # of the stages
DEPTHS = (2, 2, 6, 2)
HEADS = (0, 4, 5, 10)
WINDOWS = (0, 7, 14, 7)  # cells a side
EXPANSION = 4  # how much wider a block is inside
EMBEDDING = 256  # channels of what comes out


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of a map (b, c, h, w)."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNorm(nn.Module):
    """A convolution and its batch normalisation, which `fuse` folds into one convolution for inference."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1):
        super().__init__()
        self.c = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.c(x))

    def fuse(self) -> None:
        self.c, self.bn = fuse_conv_bn_eval(self.c, self.bn), nn.Identity()  # type: ignore[assignment]


class Bottleneck(nn.Module):
    """An inverted bottleneck: wider, a depth-wise 3 x 3, narrower again, and the input added."""

    def __init__(self, channels: int):
        super().__init__()
        wide = EXPANSION * channels
        self.conv1 = ConvNorm(channels, wide)
        self.conv2 = ConvNorm(wide, wide, 3, groups=wide)
        self.conv3 = ConvNorm(wide, channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x + self.conv3(F.gelu(self.conv2(F.gelu(self.conv1(x))))))


class Merging(nn.Module):
    """From one stage to the next: other channels, and half the cells a side where stride is 2."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = ConvNorm(inputs, outputs)
        self.conv2 = ConvNorm(outputs, outputs, 3, stride, groups=outputs)
        self.conv3 = ConvNorm(outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(F.gelu(self.conv2(F.gelu(self.conv1(x)))))


class WindowAttention(nn.Module):
    """Self-attention inside a window, with a learned bias for every distance of two cells."""

    offsets: Tensor

    def __init__(self, channels: int, heads: int, window: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        cells = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        apart = (cells[:, None] - cells[None]).abs()
        self.register_buffer("offsets", apart[..., 0] * window + apart[..., 1], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(windows, cells, c) to the same."""
        count, cells, channels = x.shape
        # Of each head its queries, keys and values lie side by side.
        heads = self.qkv(self.norm(x)).view(count, cells, self.heads, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, self.attention_biases[:, self.offsets].unsqueeze(0))
        return self.proj(mixed.transpose(1, 2).reshape(count, cells, channels))


class Perceptron(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.fc1 = nn.Linear(channels, EXPANSION * channels)
        self.fc2 = nn.Linear(EXPANSION * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(self.norm(x))))


class WindowBlock(nn.Module):
    """Attention inside windows, a depth-wise 3 x 3 across them, and a perceptron for every cell."""

    def __init__(self, channels: int, heads: int, window: int):
        super().__init__()
        self.window = window
        self.attn = WindowAttention(channels, heads, window)
        self.local_conv = ConvNorm(channels, channels, 3, groups=channels)
        self.mlp = Perceptron(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to the same."""
        x = self.local_conv(x + self._attend(x))
        return x + self.mlp(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def _attend(self, x: Tensor) -> Tensor:
        """Cut into windows, with zeros where the last ones reach over the border, and put together again."""
        batch, channels, height, width = x.shape
        side = self.window
        x = F.pad(x, (0, -width % side, 0, -height % side))
        rows, columns = x.shape[2] // side, x.shape[3] // side
        cut = x.view(batch, channels, rows, side, columns, side).permute(0, 2, 4, 3, 5, 1)
        mixed = self.attn(cut.reshape(-1, side * side, channels))
        whole = mixed.view(batch, rows, columns, side, side, channels).permute(0, 5, 1, 3, 2, 4)
        return whole.reshape(x.shape)[..., :height, :width]


class Stage(nn.Module):
    def __init__(self, index: int):
        super().__init__()
        channels, heads, window = CHANNELS[index], HEADS[index], WINDOWS[index]
        self.blocks = nn.ModuleList(
            WindowBlock(channels, heads, window) if heads else Bottleneck(channels)
            for _ in range(DEPTHS[index])
        )
        self.downsample: nn.Module = nn.Identity()
        if index + 1 < len(CHANNELS):  # the last step keeps its 64 cells a side
            self.downsample = Merging(channels, CHANNELS[index + 1], 1 if index == 2 else 2)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.downsample(x)


class PatchEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = CHANNELS[0]
        self.seq = nn.Sequential(ConvNorm(3, first // 2, 3, 2), nn.GELU(), ConvNorm(first // 2, first, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.seq(x)


class ImageEncoder(nn.Module):
    """(b, 3, 1024, 1024), normalised, to the embedding (b, 256, 64, 64)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = PatchEmbedding()
        self.layers = nn.ModuleList(Stage(index) for index in range(len(CHANNELS)))
        self.neck = nn.Sequential(
            nn.Conv2d(CHANNELS[-1], EMBEDDING, 1, bias=False),
            ChannelNorm(EMBEDDING),
            nn.Conv2d(EMBEDDING, EMBEDDING, 3, padding=1, bias=False),
            ChannelNorm(EMBEDDING),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        for stage in self.layers:
            x = stage(x)
        return self.neck(x)

    def fuse(self) -> None:
        """Folds every batch normalisation into its convolution: once the weights are loaded, and for good."""
        for module in list(self.modules()):
            if isinstance(module, ConvNorm):
                module.fuse()
