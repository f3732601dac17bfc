"""Regional AdaIN start (Eq. 2): every region begins with its style's colours and contrast."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

EPSILON = 1e-5


def statistics(latent: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation per channel, each (b, c, 1, 1), of a latent (b, c, h, w).

    weight: (h, w) in [0, 1], the part of the picture that counts; None counts all of it.
    """
    if weight is None:
        return latent.mean((2, 3), keepdim=True), latent.std((2, 3), keepdim=True) + EPSILON
    mean, variance = weighted_moments(latent, weight)
    return mean, variance.sqrt() + EPSILON


def weighted_moments(features: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased variance per channel, each (b, c, 1, 1), of features (b, c, h, w) under a weight
    (h, w).
    """
    total = weight.sum().clamp_min(EPSILON)
    mean = (features * weight).sum((2, 3), keepdim=True) / total
    # Reliability weights: with weights of 0 and 1 this is the ordinary unbiased variance of the chosen cells.
    unbiased = (total - weight.pow(2).sum() / total).clamp_min(EPSILON)
    return mean, ((features - mean).pow(2) * weight).sum((2, 3), keepdim=True) / unbiased


def adain(content: Tensor, style: Tensor, style_weight: Tensor | None = None) -> Tensor:
    """The content latent (b, c, h, w) with the channel statistics of the style latent (b, c, h', w')."""
    mean, std = statistics(content)
    style_mean, style_std = statistics(style, style_weight)
    return (content - mean) / std * style_std + style_mean


def regional_adain(
    content: Tensor,
    styles: Sequence[Tensor],
    masks: Tensor,
    style_weights: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """Eq. 2: M_c z_c + sum_i M_i AdaIN(z_c, z_i).

    content: (1, c, h, w); styles: N latents of any size; masks: (N, h, w), summing to at most 1.
    """
    weights = style_weights or [None] * len(styles)
    result = (1 - masks.sum(0)) * content
    for style, mask, weight in zip(styles, masks, weights, strict=True):
        result = result + mask * adain(content, style, weight)
    return result
