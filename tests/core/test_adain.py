"""Regional AdaIN (Eq. 2)."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core.adain import adain, regional_adain, statistics

seeds = st.integers(0, 10**6)
sides = st.integers(3, 9)


def latent(seed: int, h: int, w: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = 0.5 + torch.rand(1, 4, 1, 1, generator=generator)
    return torch.randn(1, 4, h, w, generator=generator) * scale + scale


@given(seed=seeds, h=sides, w=sides, style_h=sides, style_w=sides)
def test_the_result_has_the_statistics_of_the_style_whatever_its_size(seed, h, w, style_h, style_w):
    content, style = latent(seed, h, w), latent(seed + 1, style_h, style_w)
    result = adain(content, style)
    assert result.shape == content.shape
    torch.testing.assert_close(result.mean((2, 3)), style.mean((2, 3)), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(result.std((2, 3)), style.std((2, 3)), atol=1e-3, rtol=1e-3)


@given(seed=seeds, h=sides, w=sides)
def test_without_any_mask_the_content_stays_as_it_is(seed, h, w):
    content = latent(seed, h, w)
    assert torch.equal(regional_adain(content, [latent(1, 4, 4)], torch.zeros(1, h, w)), content)
    assert torch.equal(regional_adain(content, [], torch.zeros(0, h, w)), content)


@given(seed=seeds, count=st.integers(1, 4))
def test_regions_mix_by_their_masks_and_the_rest_is_content(seed, count):
    content = latent(seed, 5, 6)
    styles = [latent(seed + 1 + i, 4 + i, 5) for i in range(count)]
    masks = torch.rand(count + 1, 5, 6, generator=torch.Generator().manual_seed(seed)).softmax(0)[:-1]
    expected = (1 - masks.sum(0)) * content
    for style, mask in zip(styles, masks, strict=True):
        expected = expected + mask * adain(content, style)
    torch.testing.assert_close(regional_adain(content, styles, masks), expected)


def test_a_hard_mask_gives_each_side_its_own_style():
    content, styles = latent(0, 4, 6), [latent(1, 4, 4), latent(2, 7, 3)]
    masks = torch.zeros(2, 4, 6)
    masks[0, :, :3] = 1
    masks[1, :, 3:] = 1
    result = regional_adain(content, styles, masks)
    torch.testing.assert_close(result[..., :3], adain(content, styles[0])[..., :3])
    torch.testing.assert_close(result[..., 3:], adain(content, styles[1])[..., 3:])


@given(seed=seeds, chosen=st.integers(2, 24))
def test_weights_of_0_and_1_give_the_statistics_of_the_chosen_cells(seed, chosen):
    values = latent(seed, 4, 6)
    cells = torch.randperm(24, generator=torch.Generator().manual_seed(seed))[:chosen]
    weight = torch.zeros(24)
    weight[cells] = 1
    mean, std = statistics(values, weight.view(4, 6))
    torch.testing.assert_close(mean.flatten(), values.flatten(2)[0, :, cells].mean(1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(std.flatten(), values.flatten(2)[0, :, cells].std(1), atol=1e-4, rtol=1e-3)


def test_a_style_weight_hides_the_rest_of_the_painting():
    content, style = latent(0, 4, 4), latent(1, 4, 6)
    weight = torch.zeros(4, 6)
    weight[:, :3] = 1
    changed = style.clone()
    changed[..., 3:] += 100
    assert torch.equal(adain(content, style, weight), adain(content, changed, weight))
    assert not torch.allclose(adain(content, style), adain(content, changed))


def test_a_flat_content_and_a_single_cell_stay_finite():
    flat = torch.full((1, 4, 3, 3), 2.0)
    assert adain(flat, latent(0, 3, 3)).isfinite().all()
    one = torch.zeros(3, 3)
    one[1, 1] = 1
    assert adain(latent(0, 3, 3), latent(1, 3, 3), one).isfinite().all()
