"""What all feed-forward methods share: pictures in, picture out, and a checkpoint that is checked name by
name before it is trusted.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..method import Method


@dataclass(frozen=True)
class FeedForward(Method):
    """A method that needs networks of its own instead of a diffusion model.

    The networks are loaded by `ready` when a run begins, so that an object with wrong options, or a list of
    methods, costs nothing.
    """

    needs = "its own weights"
    needs_backbone = False
    stride = 8  # picture sides are made multiples of this

    _networks: dict[str, nn.Module] = field(default_factory=dict, init=False, repr=False, compare=False)

    @abstractmethod
    def load(self) -> dict[str, nn.Module]:
        """The networks by name, in evaluation mode; an InputError that says where to get a missing file."""

    @abstractmethod
    def paint(
        self,
        content: Tensor,
        styles: Sequence[Tensor],
        masks: Tensor,
        style_masks: Sequence[Tensor | None],
    ) -> Tensor:
        """content (1, 3, h, w) and styles (1, 3, h_i, w_i) in [0, 1], masks (N, h, w), style masks (h_i, w_i)
        -> picture (1, 3, h, w), nominally in [0, 1].

        A single-style method is called with one style. A global one may ignore the mask, which is full.
        """

    def ready(self, device: torch.device) -> None:
        """Loads the networks, once, onto the device."""
        if not self._networks:
            self._networks.update(self.load())
        for network in self._networks.values():
            network.eval().requires_grad_(False).to(device)

    def network(self, name: str) -> Any:
        return self._networks[name]

    @property
    def fingerprint(self) -> str:
        """sha256 over the weights, 16 hex digits."""
        digest = hashlib.sha256()
        for name, network in sorted(self._networks.items()):
            for key, value in sorted(network.state_dict().items()):
                digest.update(f"{name}.{key}{tuple(value.shape)}".encode())
                digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]
