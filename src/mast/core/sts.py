"""STS, Sharpness-aware Temperature Scaling (Sec. 3.4, App. A.3-A.5): joint attention as sharp as the
content's own.
"""

from __future__ import annotations

import torch
from torch import Tensor

SD_COEFFICIENTS = (0.08395, 0.43705, 1.00998)  # Eq. 36, fitted on Stable Diffusion 1.4
TAU_RANGE = (1.0, 5.0)  # Eq. 37


def log_peak(logits: Tensor) -> Tensor:
    """Eq. 7: log p_max = max_j L_qj - logsumexp_j L_qj of every row; (..., q, k) -> (..., q)."""
    return logits.amax(-1) - logits.logsumexp(-1)


def sharpness_gap(content_log_peak: Tensor, joint_log_peak: Tensor) -> Tensor:
    """Eq. 8: Delta, the difference of the two means over all queries; (..., q) and (..., q) -> (...)."""
    return content_log_peak.mean(-1) - joint_log_peak.mean(-1)


def tau_from_gap(
    gap: Tensor,
    coefficients: tuple[float, float, float] = SD_COEFFICIENTS,
    limits: tuple[float, float] = TAU_RANGE,
) -> Tensor:
    """Eq. 36-37: tau = clip(a D^2 + b D + c, 1, 5), one factor per head.

    The parabola turns at D = -b / 2a, left of which it would rise again although attention there is far too
    sharp
    already: such gaps take the lower limit.
    """
    a, b, c = coefficients
    tau = (a * gap * gap + b * gap + c).clamp(*limits)
    if a > 0:
        tau = torch.where(gap < -b / (2 * a), torch.full_like(tau, limits[0]), tau)
    return tau
