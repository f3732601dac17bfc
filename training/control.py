"""MAST's control for a batch with gradients: every row has its own photo, styles, masks and timestep.

`mast.methods.Mast` paints one picture at a time, without gradients. Here the same attention (query blending,
LAMA, STS) and the same detail injection (DDI) act on b stylized rows at once. Gradients flow through what is
mixed, not through how sharply and in which shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mast.backbone.instrument import Identity
from mast.backbone.sites import Site
from mast.core import ddi, lama, sts
from mast.core.attention import attend, row_statistics
from mast.methods import Mast


@dataclass
class Watcher(Identity):
    """Changes nothing and keeps what a batch shows at every site: query, key, value, residual branch."""

    seen: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.seen.setdefault(site.index, {}).update(query=query, key=key, value=value)
        return super().attend(site, query, key, value)

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        self.seen.setdefault(site.index, {}).update(residual=branch)
        return branch

    def rows(self, site: Site, name: str, start: int, count: int) -> Tensor:
        """Rows of what was seen: (count, heads, tokens, d), or (count, c, h, w) for a residual branch."""
        return self.seen[site.index][name][start : start + count]


@dataclass
class BatchedMast:
    """The control of b stylized rows.

    watcher: has seen b photos, then b first styles, then b second ones, ...; masks: by number of tokens,
    (n, b, tokens).
    """

    method: Mast
    watcher: Watcher
    masks: Mapping[int, Tensor]

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Eq. 3-9 for queries (b, heads, tokens, d) -> (b, heads, tokens, d)."""
        b, _, tokens, _ = query.shape
        masks = self.masks[tokens]
        content = {name: self.watcher.rows(site, name, 0, b) for name in ("query", "key", "value")}
        blended = self.method.lam * content["query"] + (1 - self.method.lam) * query
        parts = [
            (blended, *(self.watcher.rows(site, name, (1 + i) * b, b) for name in ("key", "value")))
            for i in range(len(masks))
        ]
        parts.append((content["query"], content["key"], content["value"]))
        masses = lama.target_masses(masks.flatten(1), self.method.pi).view(-1, b, 1, tokens)
        return mix(parts, masses, self.method).unflatten(0, (b, -1))

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        """Eq. 11, for branches (b, c, h, w)."""
        if not self.method.ddi:
            return branch
        return ddi.inject(branch, self.watcher.rows(site, "residual", 0, len(branch)), self.method.r)


def mix(parts: Sequence[tuple[Tensor, Tensor, Tensor]], masses: Tensor, method: Mast) -> Tensor:
    """(query, key, value) of every style and, last, of the content, (b, heads, tokens, d) each, and target
    masses (n + 1, b, 1, tokens) -> the joint attention (b heads, tokens, d).

    See mast.core.attention: log w_g = tau (log pi_g - z_g) + logsumexp(tau l_g).
    """
    heads = parts[0][0].shape[1]
    log_masses = masses.log().expand(-1, -1, heads, -1).flatten(1, 2)
    folded = [tuple(x.flatten(0, 1) for x in part) for part in parts]
    with torch.no_grad():
        rows = [row_statistics(query, key) for query, key, _ in folded]
        peak = torch.stack([m + r.log_peak for m, r in zip(log_masses, rows, strict=True)]).amax(0)
        rule = method.tau_rule
        tau = (
            rule(sts.sharpness_gap(rows[-1].log_peak, peak)) if callable(rule) else peak.new_full((1,), rule)
        )
    outputs, log_weights = [], []
    for (query, key, value), mass, row in zip(folded, log_masses, rows, strict=True):
        output, log_z = attend(query * tau.view(-1, 1, 1), key, value)
        outputs.append(output)
        log_weights.append(tau.view(-1, 1) * (mass - row.log_z) + log_z)
    weights = torch.stack(log_weights).softmax(0).unsqueeze(-1)
    return (torch.stack(outputs) * weights).sum(0)
