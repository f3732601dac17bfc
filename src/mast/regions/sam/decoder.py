"""From clicks and boxes to masks, as Segment Anything does it (Kirillov et al. 2023,
https://arxiv.org/abs/2304.02643): prompts become tokens, tokens and image attend to each other twice, and
every mask token becomes the weights of one 1 x 1 convolution over the enlarged image embedding.

Names of parameters are those of the published checkpoints; all of SAM's sizes and MobileSAM share this part.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoder import EMBEDDING, ChannelNorm

SIDE = 1024  # pixels of the square that the encoder sees
CELLS = 64  # of the embedding, a side
HEADS = 8
HIDDEN = 2048  # width of the perceptron between two attentions
LAYERS = 2
MASKS = 4  # one for prompts that leave no doubt, and three for the whole, the part and the part of the part
NOT, YES, CORNER, OTHER_CORNER = range(4)  # what a point says


class Fourier(nn.Module):
    """Places as sines and cosines of random, learned-once frequencies."""

    positional_encoding_gaussian_matrix: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positional_encoding_gaussian_matrix", torch.zeros(2, EMBEDDING // 2))

    def forward(self, places: Tensor) -> Tensor:
        """(..., 2), x and y from 0 to 1, to (..., 256)."""
        angles = 2 * math.pi * ((2 * places - 1) @ self.positional_encoding_gaussian_matrix)
        return torch.cat([angles.sin(), angles.cos()], -1)


class PromptEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pe_layer = Fourier()
        kinds = (NOT, YES, CORNER, OTHER_CORNER)
        self.point_embeddings = nn.ModuleList(nn.Embedding(1, EMBEDDING) for _ in kinds)
        self.not_a_point_embed = nn.Embedding(1, EMBEDDING)
        self.no_mask_embed = nn.Embedding(1, EMBEDDING)

    def forward(self, points: Tensor, kinds: Tensor) -> Tensor:
        """Tokens (b, n or n + 1, 256) of points (b, n, 2) in pixels of the square, kinds (b, n) as above.

        A prompt without a box ends with a token that stands for no point: so the network was trained.
        """
        table = torch.cat(list(self.point_embeddings.parameters()))
        tokens = self.pe_layer((points + 0.5) / SIDE) + table[kinds]
        if bool((kinds >= CORNER).any()):
            return tokens
        return torch.cat([tokens, self.not_a_point_embed.weight.expand(len(points), 1, -1)], 1)

    def grid(self) -> Tensor:
        """The places of the embedding's cells, (1, cells, 256)."""
        middles = (torch.arange(CELLS, device=self.no_mask_embed.weight.device) + 0.5) / CELLS
        ys, xs = torch.meshgrid(middles, middles, indexing="ij")
        return self.pe_layer(torch.stack([xs, ys], -1)).view(1, CELLS * CELLS, -1)


class CrossAttention(nn.Module):
    """Attention through a narrower space. Where the batch of one side is 1 it serves all of the other."""

    def __init__(self, narrower: int = 1):
        super().__init__()
        inner = EMBEDDING // narrower
        self.q_proj = nn.Linear(EMBEDDING, inner)
        self.k_proj = nn.Linear(EMBEDDING, inner)
        self.v_proj = nn.Linear(EMBEDDING, inner)
        self.out_proj = nn.Linear(inner, EMBEDDING)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(b, n, 256), (b, m, 256), (b, m, 256) to (b, n, 256)."""
        batch = max(len(q), len(k))
        split = [
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2).expand(batch, -1, -1, -1)
            for layer, x in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        ]
        return self.out_proj(F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class TokenPerceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin1 = nn.Linear(EMBEDDING, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, EMBEDDING)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin2(F.relu(self.lin1(x)))


class TwoWayBlock(nn.Module):
    """Tokens look at each other, at the image, and think; then the image looks at the tokens."""

    def __init__(self, first: bool):
        super().__init__()
        self.first = first
        self.self_attn = CrossAttention()
        self.cross_attn_token_to_image = CrossAttention(2)
        self.cross_attn_image_to_token = CrossAttention(2)
        self.mlp = TokenPerceptron()
        self.norm1, self.norm2 = nn.LayerNorm(EMBEDDING), nn.LayerNorm(EMBEDDING)
        self.norm3, self.norm4 = nn.LayerNorm(EMBEDDING), nn.LayerNorm(EMBEDDING)

    def forward(self, tokens: Tensor, image: Tensor, prompt: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """tokens, prompt: (b, n, 256); image, places: (b or 1, cells, 256)."""
        if self.first:  # the tokens are the prompt itself: nothing is added to it
            tokens = self.self_attn(tokens, tokens, tokens)
        else:
            placed = tokens + prompt
            tokens = tokens + self.self_attn(placed, placed, tokens)
        tokens = self.norm1(tokens)
        tokens = self.norm2(tokens + self.cross_attn_token_to_image(tokens + prompt, image + places, image))
        tokens = self.norm3(tokens + self.mlp(tokens))
        image = self.norm4(image + self.cross_attn_image_to_token(image + places, tokens + prompt, tokens))
        return tokens, image


class TwoWayTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TwoWayBlock(index == 0) for index in range(LAYERS))
        self.final_attn_token_to_image = CrossAttention(2)
        self.norm_final_attn = nn.LayerNorm(EMBEDDING)

    def forward(self, prompt: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        tokens = prompt
        for layer in self.layers:
            tokens, image = layer(tokens, image, prompt, places)
        last = self.final_attn_token_to_image(tokens + prompt, image + places, image)
        return self.norm_final_attn(tokens + last), image


class Head(nn.Module):
    """Three layers, from a token to numbers."""

    def __init__(self, outputs: int):
        super().__init__()
        widths = [EMBEDDING, EMBEDDING, EMBEDDING, outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        *inner, last = self.layers
        for layer in inner:
            x = F.relu(layer(x))
        return last(x)


class MaskDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.iou_token = nn.Embedding(1, EMBEDDING)
        self.mask_tokens = nn.Embedding(MASKS, EMBEDDING)
        self.transformer = TwoWayTransformer()
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(EMBEDDING, EMBEDDING // 4, 2, 2),
            ChannelNorm(EMBEDDING // 4),
            nn.GELU(),
            nn.ConvTranspose2d(EMBEDDING // 4, EMBEDDING // 8, 2, 2),
            nn.GELU(),
        )
        self.output_hypernetworks_mlps = nn.ModuleList(Head(EMBEDDING // 8) for _ in range(MASKS))
        self.iou_prediction_head = Head(MASKS)

    def forward(self, image: Tensor, places: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, 4, 256, 256) of the masks and how well each is thought to fit, (b, 4).

        image, places: (1, cells, 256); prompt: (b, n, 256).
        """
        own = torch.cat([self.iou_token.weight, self.mask_tokens.weight])
        tokens = torch.cat([own.expand(len(prompt), -1, -1), prompt], 1)
        tokens, image = self.transformer(tokens, image, places)
        enlarged = self.output_upscaling(image.transpose(1, 2).unflatten(2, (CELLS, CELLS)))
        weights = [head(tokens[:, 1 + i]) for i, head in enumerate(self.output_hypernetworks_mlps)]
        masks = torch.einsum("bmc,bchw->bmhw", torch.stack(weights, 1), enlarged)
        return masks, self.iou_prediction_head(tokens[:, 0])
