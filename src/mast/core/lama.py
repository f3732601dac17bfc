"""LAMA, Logit-level Attention Mass Allocation (Sec. 3.3, App. A.2): a mask becomes attention mass, exactly.

Adding one scalar per style and query to all logits of that style makes the joint softmax give each
partition the mass its mask asks for, without changing which keys are chosen inside a partition.
"""

from __future__ import annotations

import torch
from torch import Tensor


def target_masses(masks: Tensor, pi: float = 0.9, floor: float = 0.0) -> Tensor:
    """Eq. 4: pi_i = pi* M_i for every style, and the content's 1 - sum_i pi_i as the last row.

    masks: (N, q) -> (N + 1, q), summing to 1 over the rows. floor: clamps them from below, after which they
    are made to sum to 1 again; 0 is the exact limit. (The paper reports a leakage of 1.0e-6 where the exact
    value is 0, from which a clamp at 1e-6 can be inferred.)
    """
    styles = pi * masks
    targets = torch.cat([styles, 1 - styles.sum(0, keepdim=True)])
    if floor == 0:
        return targets.clamp_min(0)
    floored = targets.clamp_min(floor)
    return floored / floored.sum(0, keepdim=True)


def bias(log_targets: Tensor, log_z: Tensor) -> Tensor:
    """Eq. 5: b_i = log(pi_i / pi_c) + log Z_c - log Z_i.

    log_targets: (N + 1, q), content last; log_z: (N + 1, ..., q) the logsumexp of each partition's logits.
    Returns (N, ..., q). Where pi_i is 0 the bias is -inf. Where pi_c is 0 there is no finite bias: see
    `offsets`.
    """
    between = (1,) * (log_z.dim() - log_targets.dim())
    log_targets = log_targets.view(log_targets.shape[0], *between, log_targets.shape[-1])
    return log_targets[:-1] - log_targets[-1:] + log_z[-1:] - log_z[:-1]


def offsets(log_targets: Tensor, log_z: Tensor) -> Tensor:
    """What every partition's logits are shifted by so that partition g has mass pi_g: log pi_g - log Z_g.

    The same as `bias` up to the shift log pi_c - log Z_c shared by a query's whole row, which a softmax
    does not see, so nothing is divided by pi_c and zero masses, of a style or of the content, are just
    -inf. After this shift the row's logsumexp is log sum_g pi_g = 0. Shapes as in `bias`, but (N + 1, ...,
    q) comes back.
    """
    between = (1,) * (log_z.dim() - log_targets.dim())
    return log_targets.view(log_targets.shape[0], *between, log_targets.shape[-1]) - log_z
