"""Tapping a block changes nothing and leaves no trace."""

import pytest
import torch

from mast.backbone.taps import block_features, tapped

BLOCKS = ["up_blocks.1", "up_blocks.2"]


def latent(h: int = 8, w: int = 16) -> torch.Tensor:
    return torch.randn(1, 4, h, w, generator=torch.Generator().manual_seed(0))


def hooks(unet) -> int:
    return sum(len(module._forward_hooks) for module in unet.modules())


@torch.inference_mode()
def test_the_pass_is_the_same_and_the_blocks_outputs_are_there(tiny_backbone):
    plain = tiny_backbone.predict(latent(), 261)
    with tapped(tiny_backbone.unet, BLOCKS) as seen:
        assert torch.equal(tiny_backbone.predict(latent(), 261), plain)
    assert [tuple(seen[name].shape) for name in BLOCKS] == [(1, 64, 4, 8), (1, 32, 8, 16)]
    assert hooks(tiny_backbone.unet) == 0


def test_stopping_at_the_last_block_gives_the_same_features(tiny_backbone):
    with torch.inference_mode(), tapped(tiny_backbone.unet, BLOCKS) as seen:
        tiny_backbone.predict(latent(), 261)
    found = block_features(tiny_backbone, latent(), 261, BLOCKS)
    assert all(torch.equal(found[name], seen[name][0]) for name in BLOCKS)
    assert hooks(tiny_backbone.unet) == 0


def test_hooks_are_removed_however_it_is_left(tiny_backbone):
    with pytest.raises(KeyboardInterrupt), tapped(tiny_backbone.unet, BLOCKS):
        raise KeyboardInterrupt
    with pytest.raises(AttributeError), tapped(tiny_backbone.unet, ["up_blocks.1", "no_such_block"]):
        pass
    assert hooks(tiny_backbone.unet) == 0
