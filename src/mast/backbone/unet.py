"""The U-Net of Stable Diffusion 1.x and 2.x in plain torch, for the embedded model.

diffusers' UNet2DConditionModel computes the same bits from the same weights (a test holds that), but its
import takes torch's compiler and much of transformers along, and those take longer than everything else at
the start of a run. Other models bring options of their own and stay with diffusers' class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .rules import Config


class PlainAttention:
    """The processor that changes nothing; a control puts another in its place."""

    def __call__(self, attn: Attention, hidden_states: Tensor, prompt: Tensor | None = None) -> Tensor:
        source = hidden_states if prompt is None else prompt
        query, key, value = (
            x.unflatten(-1, (attn.heads, -1)).transpose(1, 2)
            for x in (attn.to_q(hidden_states), attn.to_k(source), attn.to_v(source))
        )
        output = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return attn.to_out[1](attn.to_out[0](output))


class Attention(nn.Module):
    """Attention of tokens (b, n, c) to themselves, or to a prompt (b, m, d)."""

    def __init__(self, channels: int, heads: int, prompt_channels: int | None = None):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_k = nn.Linear(prompt_channels or channels, channels, bias=False)
        self.to_v = nn.Linear(prompt_channels or channels, channels, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels), nn.Identity()])
        self.processor: Callable[..., Tensor] = PlainAttention()

    def set_processor(self, processor: Callable[..., Tensor]) -> None:
        self.processor = processor

    def forward(self, hidden_states: Tensor, prompt: Tensor | None = None) -> Tensor:
        return self.processor(self, hidden_states, prompt)


class GatedLinear(nn.Module):
    """GEGLU (Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        self.proj = nn.Linear(channels, 2 * hidden)

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * F.gelu(gate)


class GatedFeedForward(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.net = nn.Sequential(
            GatedLinear(channels, 4 * channels), nn.Identity(), nn.Linear(4 * channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class TransformerBlock(nn.Module):
    """Self-attention, attention to the prompt, feed-forward; tokens (b, n, c) -> (b, n, c)."""

    def __init__(self, channels: int, heads: int, prompt_channels: int):
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(channels), Attention(channels, heads)
        self.norm2, self.attn2 = nn.LayerNorm(channels), Attention(channels, heads, prompt_channels)
        self.norm3, self.ff = nn.LayerNorm(channels), GatedFeedForward(channels)

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x), prompt) + x
        return self.ff(self.norm3(x)) + x


class MapTransformer(nn.Module):
    """A transformer block on a feature map (b, c, h, w). linear: projected after flattening, as in SD 2.x."""

    def __init__(self, channels: int, heads: int, prompt_channels: int, groups: int, linear: bool):
        super().__init__()
        self.linear = linear
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.proj_in = nn.Linear(channels, channels) if linear else nn.Conv2d(channels, channels, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(channels, heads, prompt_channels)])
        self.proj_out = nn.Linear(channels, channels) if linear else nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        b, c, h, w = x.shape
        inside = self.norm(x)
        if not self.linear:
            inside = self.proj_in(inside)
        inside = inside.permute(0, 2, 3, 1).reshape(b, h * w, c)
        if self.linear:
            inside = self.proj_in(inside)
        inside = self.transformer_blocks[0](inside, prompt)
        if self.linear:
            inside = self.proj_out(inside)
        inside = inside.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous()
        if not self.linear:
            inside = self.proj_out(inside)
        return inside + x


class ResBlock(nn.Module):
    """The skip feature plus a residual branch, the output of conv2; (b, in, h, w) -> (b, out, h, w)."""

    def __init__(self, inward: int, outward: int, time: int, groups: int, eps: float):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inward, eps=eps)
        self.conv1 = nn.Conv2d(inward, outward, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, outward)
        self.norm2 = nn.GroupNorm(groups, outward, eps=eps)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inward, outward, 1) if inward != outward else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        branch = self.conv1(F.silu(self.norm1(x)))
        branch = branch + self.time_emb_proj(F.silu(time))[:, :, None, None]
        branch = self.conv2(F.silu(self.norm2(branch)))
        return (x if self.conv_shortcut is None else self.conv_shortcut(x)) + branch


class Resample(nn.Module):
    """A 3x3 convolution that halves a map (stride 2), or follows its enlargement to `size` (stride 1)."""

    def __init__(self, channels: int, stride: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)

    def forward(self, x: Tensor, size: Sequence[int] | None = None) -> Tensor:
        return self.conv(x if size is None else F.interpolate(x, size=tuple(size), mode="nearest"))


class Level(nn.Module):
    """ResBlocks, each followed by its transformer where the level has any."""

    def __init__(self, resnets: Sequence[ResBlock], attentions: Sequence[MapTransformer]):
        super().__init__()
        self.resnets = nn.ModuleList(resnets)
        if attentions:
            self.attentions = nn.ModuleList(attentions)
        self.attends = bool(attentions)

    def step(self, i: int, x: Tensor, time: Tensor, prompt: Tensor) -> Tensor:
        x = self.resnets[i](x, time)
        return self.attentions[i](x, prompt) if self.attends else x


class DownLevel(Level):
    def __init__(self, resnets: Sequence[ResBlock], attentions: Sequence[MapTransformer], shrink: int | None):
        super().__init__(resnets, attentions)
        self.downsamplers = nn.ModuleList([Resample(shrink, 2)] if shrink else [])

    def forward(self, x: Tensor, time: Tensor, prompt: Tensor) -> list[Tensor]:
        """What the decoder will be shown of this level; the last is what the next level gets."""
        seen = []
        for i in range(len(self.resnets)):
            x = self.step(i, x, time, prompt)
            seen.append(x)
        return [*seen, *[shrink(x) for shrink in self.downsamplers]]


class MidLevel(Level):
    def forward(self, x: Tensor, time: Tensor, prompt: Tensor) -> Tensor:
        x = self.attentions[0](self.resnets[0](x, time), prompt)
        return self.resnets[1](x, time)


class UpLevel(Level):
    def __init__(self, resnets: Sequence[ResBlock], attentions: Sequence[MapTransformer], grow: int | None):
        super().__init__(resnets, attentions)
        self.upsamplers = nn.ModuleList([Resample(grow, 1)] if grow else [])

    def forward(
        self, x: Tensor, skips: list[Tensor], size: Sequence[int], time: Tensor, prompt: Tensor
    ) -> Tensor:
        """skips: the encoder's maps, last one first to be used; size: (h, w) of the next level."""
        for i, skip in enumerate(reversed(skips)):
            x = self.step(i, torch.cat([x, skip], dim=1), time, prompt)
        for grow in self.upsamplers:
            x = grow(x, size)
        return x


class TimeEmbedding(nn.Module):
    def __init__(self, channels: int, width: int):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(channels, width), nn.Linear(width, width)

    def forward(self, waves: Tensor) -> Tensor:
        return self.linear_2(F.silu(self.linear_1(waves)))


class Prediction(NamedTuple):
    """A U-Net's answer (b, c, h, w), by name or as the first of a tuple, as diffusers gives it."""

    sample: Tensor


class SDUNet(nn.Module):
    """config: that of diffusers' UNet2DConditionModel, as `configs.read_unet` checked it."""

    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        self.config = Config(config)
        widths, layers = list(config["block_out_channels"]), 2
        heads = config["attention_head_dim"]
        heads = [heads] * len(widths) if isinstance(heads, int) else list(heads)
        groups, eps, time = config["norm_num_groups"], config["norm_eps"], 4 * widths[0]
        last = len(widths) - 1

        def res(inward: int, outward: int) -> ResBlock:
            return ResBlock(inward, outward, time, groups, eps)

        def attend(level: int, times: int) -> list[MapTransformer]:
            linear, prompt = config["use_linear_projection"], config["cross_attention_dim"]
            return [MapTransformer(widths[level], heads[level], prompt, groups, linear) for _ in range(times)]

        self.time_embedding = TimeEmbedding(widths[0], time)
        self.conv_in = nn.Conv2d(config["in_channels"], widths[0], 3, padding=1)
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        for i, width in enumerate(widths):
            resnets = [res(widths[max(i - 1, 0)], width)] + [res(width, width) for _ in range(layers - 1)]
            attentions = attend(i, layers) if i < last else []
            self.down_blocks.append(DownLevel(resnets, attentions, width if i < last else None))
        self.mid_block = MidLevel([res(widths[-1], widths[-1]) for _ in range(2)], attend(last, 1))
        for i in range(last, -1, -1):
            below, width, above = widths[min(i + 1, last)], widths[i], widths[max(i - 1, 0)]
            resnets = [res(below + width, width)]
            resnets += [res(width + width, width) for _ in range(layers - 1)] + [res(width + above, width)]
            attentions = attend(i, layers + 1) if i < last else []
            self.up_blocks.append(UpLevel(resnets, attentions, width if i > 0 else None))
        self.conv_norm_out = nn.GroupNorm(groups, widths[0], eps=eps)
        self.conv_out = nn.Conv2d(widths[0], config["out_channels"], 3, padding=1)

    def forward(
        self,
        sample: Tensor,
        timestep: int | Tensor,
        encoder_hidden_states: Tensor,
        return_dict: bool = True,
    ) -> Prediction:
        """Latent (b, c, h, w), timestep or timesteps (b,), prompt (b, tokens, d) -> prediction (b, c, h, w).

        return_dict: as diffusers has it; the answer can be taken either way.
        """
        time = self.time_embedding(self._waves(sample, timestep))
        x = self.conv_in(sample)
        skips = [x]
        for down in self.down_blocks:
            skips += down(skips[-1], time, encoder_hidden_states)
        x = self.mid_block(skips[-1], time, encoder_hidden_states)
        for up in self.up_blocks:
            count = len(up.resnets)  # type: ignore[arg-type]
            own, skips = skips[-count:], skips[:-count]
            x = up(x, own, skips[-1].shape[-2:] if skips else (), time, encoder_hidden_states)
        return Prediction(self.conv_out(F.silu(self.conv_norm_out(x))))

    def _waves(self, sample: Tensor, timestep: int | Tensor) -> Tensor:
        """Cosines and sines of the timesteps at falling frequencies, (b, widths[0])."""
        half = self.config["block_out_channels"][0] // 2
        exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32, device=sample.device) / half
        times = torch.as_tensor(timestep, dtype=torch.float32, device=sample.device)
        angles = times.reshape(-1, 1).expand(len(sample), 1) * torch.exp(exponent)
        return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1).to(sample.dtype)
