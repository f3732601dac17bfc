"""Which places of a U-Net are controlled, and which U-Nets are refused."""

import pytest
import torch
from diffusers import UNet2DConditionModel, UNet2DModel

from mast import InputError
from mast.backbone.sites import sites_for
from tests.tiny import make_unet

NAMES = [
    (f"up_blocks.{b}.attentions.{i}.transformer_blocks.0.attn1", f"up_blocks.{b}.resnets.{i}")
    for b in (2, 3)
    for i in (0, 1, 2)
]


def test_the_six_sites_are_the_papers_decoder_blocks_7_to_12(tiny_unet):
    sites = sites_for(tiny_unet)
    assert [(site.attention, site.residual) for site in sites] == NAMES
    assert [site.index for site in sites] == list(range(6))
    assert [site.shrink for site in sites] == [2, 2, 2, 1, 1, 1]
    assert {site.heads for site in sites} == {8} and {site.channels for site in sites} == {32}


def test_grids_follow_the_latent_not_a_square_root(tiny_unet):
    sites = sites_for(tiny_unet)
    assert sites[0].grid((64, 64)) == (32, 32) and sites[5].grid((64, 64)) == (64, 64)
    assert sites[0].grid((8, 24)) == (4, 12) and sites[5].grid((8, 24)) == (8, 24)


def test_sites_run_in_the_order_they_are_listed_on_the_grids_they_promise(tiny_unet):
    ran = []
    hooks = [
        tiny_unet.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: ran.append((name, output.shape))
        )
        for pair in NAMES
        for name in pair
    ]
    with torch.inference_mode():
        tiny_unet(torch.randn(1, 4, 8, 16), 1, torch.randn(1, 8, 32))
    for hook in hooks:
        hook.remove()
    assert [name for name, _ in ran] == [
        name for attention, residual in NAMES for name in (residual, attention)
    ]
    for site, (_, residual), (_, attention) in zip(sites_for(tiny_unet), ran[::2], ran[1::2], strict=True):
        assert tuple(residual[-2:]) == site.grid((8, 16))
        assert attention[1] == site.grid((8, 16))[0] * site.grid((8, 16))[1]


def test_stable_diffusion_2_with_linear_projections_is_known():
    unet = make_unet(use_linear_projection=True, attention_head_dim=(4, 4, 8, 8))
    assert len(sites_for(unet)) == 6


def test_sdxl_is_refused_by_name():
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 32, 64),
        cross_attention_dim=32,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=80,
    )
    with pytest.raises(InputError, match="SDXL") as error:
        sites_for(unet)
    assert "CrossAttnUpBlock2D, CrossAttnUpBlock2D, UpBlock2D" in str(error.value)


def test_another_class_is_refused_by_name():
    unet = UNet2DModel(sample_size=8, block_out_channels=(32, 32, 32, 32))
    with pytest.raises(InputError, match="UNet2DModel"):
        sites_for(unet)
    with pytest.raises(InputError, match="Linear"):
        sites_for(torch.nn.Linear(1, 1))


def test_several_transformer_blocks_a_layer_are_refused():
    with pytest.raises(InputError, match="several transformer blocks"):
        sites_for(make_unet(transformer_layers_per_block=2))


def test_fewer_layers_a_block_are_refused_by_the_missing_name():
    with pytest.raises(InputError, match=r"up_blocks\.2\.attentions\.2"):
        sites_for(make_unet(layers_per_block=1))


def test_scaled_residual_blocks_are_refused():
    unet = make_unet()
    unet.up_blocks[2].resnets[1].output_scale_factor = 2.0
    with pytest.raises(InputError, match="scaled ResBlock"):
        sites_for(unet)
