"""DDI, Discrepancy-aware Detail Injection (Sec. 3.5, App. A.6): the photo's fine detail, where stylization
lost it.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

EPSILON = 1e-8


@lru_cache(maxsize=64)
def gaussian_high_pass(height: int, width: int, r: float, device: str = "cpu") -> Tensor:
    """Eq. 42-44: 1 - exp(-D^2 / 2 sigma^2) on the centred frequency plane, sigma = r min(h, w); (h, w)
    float32.
    """
    u = torch.arange(height, device=device, dtype=torch.float32) - height // 2
    v = torch.arange(width, device=device, dtype=torch.float32) - width // 2
    distance = u[:, None] ** 2 + v[None, :] ** 2
    sigma = r * min(height, width)
    return 1 - torch.exp(-distance / (2 * (sigma**2 + EPSILON)))


@lru_cache(maxsize=64)
def _half_plane(height: int, width: int, r: float, device: str) -> Tensor:
    """The part of the mask that a real-input FFT uses, with the zero frequency in the corner; (h, w // 2 +
    1).
    """
    return torch.fft.ifftshift(gaussian_high_pass(height, width, r, device))[:, : width // 2 + 1].contiguous()


def high_pass(feature: Tensor, r: float = 0.3) -> Tensor:
    """Eq. 45: H_r(F), computed in float32; (b, c, h, w) -> (b, c, h, w).

    The mask is symmetric, so the real-input transform gives the same numbers as the full one for half the
    work.
    """
    height, width = feature.shape[-2:]
    mask = _half_plane(height, width, r, str(feature.device))
    spectrum = torch.fft.rfft2(feature.float().contiguous(), norm="ortho")
    return torch.fft.irfft2(spectrum * mask, s=(height, width), norm="ortho").to(feature.dtype)


def discrepancy(update: Tensor, content: Tensor) -> Tensor:
    """Eq. 11: omega = 1 - cos(dF_x, F_c) over channels and space together; (b, c, h, w) twice -> (b, 1, 1,
    1).
    """
    cosine = torch.cosine_similarity(
        update.float().flatten(1), content.float().flatten(1), dim=1, eps=EPSILON
    )
    return (1 - cosine).view(-1, 1, 1, 1)


def inject(update: Tensor, content: Tensor, r: float = 0.3) -> Tensor:
    """Eq. 11 without the skip feature, which the ResBlock adds itself: dF_x + omega H_r(F_c)."""
    return update + (discrepancy(update, content) * high_pass(content, r).float()).to(update.dtype)


def transmission(r: float, size: int = 64) -> float:
    """T(r) = mean M_r^2 / mean M_0.1^2: how much the filter lets through, relative to r = 0.1."""
    energy = lambda value: gaussian_high_pass(size, size, value).double().pow(2).mean()
    return float(energy(r) / energy(0.1))
