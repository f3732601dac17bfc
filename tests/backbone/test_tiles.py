"""Large pictures decoded part by part: bit by bit the same where an autoencoder's reach is known."""

import pytest
import torch

from mast.backbone import backbone as module
from mast.core.windows import Windows


def latent(backbone, h, w, seed=0):
    channels = backbone.unet.config.in_channels
    return torch.randn(1, channels, h, w, generator=torch.Generator().manual_seed(seed))


def test_the_embedded_decoder_gives_the_same_bits_by_tiles(preview, monkeypatch):
    z = latent(preview, 40, 30)
    whole = preview.decode(z)
    sizes = []
    decode = preview.autoencoder.decode
    monkeypatch.setattr(module, "TILE", 16)
    monkeypatch.setattr(
        preview.autoencoder, "decode", lambda part: (sizes.append(tuple(part.shape[-2:])), decode(part))[1]
    )
    assert torch.equal(preview.decode(z), whole)
    reach = preview.autoencoder.reach
    assert len(sizes) == 6 and max(max(size) for size in sizes) <= 16 + 2 * reach


def test_its_reach_is_its_receptive_field(preview):
    """A change of one cell is seen `reach` cells away at most, and further than half of that."""
    z = latent(preview, 33, 33)
    other = z.clone()
    other[..., 16, 16] += 1
    changed = (preview.decode(z) - preview.decode(other)).abs().amax((0, 1)) > 0
    cells = changed.view(33, 8, 33, 8).amax((1, 3)).nonzero()
    assert int((cells - 16).abs().max()) in (preview.autoencoder.reach - 1, preview.autoencoder.reach)


@pytest.mark.parametrize("way", ["encode", "decode"])
def test_an_autoencoder_with_group_norms_sees_no_more_than_a_window(tiny_backbone, monkeypatch, way):
    windows = Windows((16, 32), 16, 8)
    z, image = latent(tiny_backbone, 16, 32), torch.rand(1, 3, 128, 256) * 2 - 1
    given, scale = (image, 8) if way == "encode" else (z, 1)
    whole, own, sizes = getattr(tiny_backbone, way)(given), getattr(tiny_backbone.autoencoder, way), []
    monkeypatch.setattr(
        tiny_backbone.autoencoder, way, lambda part: (sizes.append(tuple(part.shape[-2:])), own(part))[1]
    )
    blended = getattr(tiny_backbone, way)(given, windows)
    assert blended.shape == whole.shape and sizes == [(16 * scale, 16 * scale)] * 3
    assert torch.corrcoef(torch.stack([blended.flatten(), whole.flatten()]))[0, 1] > 0.9


def test_one_window_is_the_whole_bit_by_bit(tiny_backbone):
    z, alone = latent(tiny_backbone, 8, 16), Windows((8, 16), 16, 8)
    assert torch.equal(tiny_backbone.decode(z, alone), tiny_backbone.decode(z))
