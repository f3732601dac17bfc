"""Lending a U-Net a control, and taking it back.

`controlled` is the one impure thing in mast: it puts an attention processor on every site and a hook on the
ResBlock beside it, and restores the U-Net exactly when it is left, however it is left. While it lasts the
U-Net belongs to one thread; the passes of others, controlled or not, wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch.nn.functional as F
from torch import Tensor, nn

from .sites import Site


class Control(Protocol):
    """What happens at a site.

    Tensors: query, key and value (b, heads, tokens, d); a residual branch (b, c, h, w).
    """

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The attention output (b, heads, tokens, d)."""
        ...

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        """What the ResBlock adds to its skip feature instead of `branch`."""
        ...


class Identity:
    """The control that changes nothing."""

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value)

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        return branch


class StopForward(Exception):
    """Raised by a control that has seen all it wants; `Backbone.visit` ends the pass there."""


class _Processor:
    """diffusers' AttnProcessor2_0 with the attention itself handed to a control."""

    def __init__(self, site: Site, control: Control):
        self.site, self.control = site, control

    def __call__(self, attn: Any, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        batch = hidden_states.shape[0]

        def heads(x: Tensor) -> Tensor:
            return x.view(batch, -1, attn.heads, x.shape[-1] // attn.heads).transpose(1, 2)

        query, key, value = (
            heads(attn.to_q(hidden_states)),
            heads(attn.to_k(hidden_states)),
            heads(attn.to_v(hidden_states)),
        )
        output = self.control.attend(self.site, query, key, value)
        output = output.transpose(1, 2).reshape(batch, hidden_states.shape[1], -1).to(query.dtype)
        return attn.to_out[1](attn.to_out[0](output))


_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making = Lock()


def exclusive(unet: nn.Module) -> Any:
    """The lock of a U-Net, which every pass takes; the thread that holds it may take it again."""
    with _making:
        return _locks.setdefault(unet, RLock())


@contextmanager
def controlled(unet: nn.Module, sites: Sequence[Site], control: Control) -> Iterator[None]:
    """While inside, `control` decides what the sites of `unet` do, and no other thread gets a pass.

    Leaving restores processors and hooks exactly. Enter and leave it in one thread.
    """
    with exclusive(unet):
        attentions: list[Any] = [unet.get_submodule(site.attention) for site in sites]
        before = [attention.processor for attention in attentions]
        hooks = []
        try:
            for site, attention in zip(sites, attentions, strict=True):
                processor = _Processor(site, control)
                attention.set_processor(processor)
                branch = unet.get_submodule(f"{site.residual}.conv2")
                hooks.append(branch.register_forward_hook(_residual_hook(attention, processor)))
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for attention, processor in zip(attentions, before, strict=True):
                attention.processor = processor


def _residual_hook(attention: Any, processor: _Processor) -> Any:
    # The output of conv2 *is* the residual branch: the ResBlock only adds the skip feature to it.
    # Hooks stack while processors replace each other: only the innermost control may act.
    site, control = processor.site, processor.control
    return lambda module, inputs, output: (
        control.residual(site, output) if attention.processor is processor else output
    )
