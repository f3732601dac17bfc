"""The embedded model's own U-Net: diffusers' bits without diffusers, and a start that imports little."""

import subprocess
import sys

import pytest
import torch
from diffusers import UNet2DConditionModel

from mast.backbone.instrument import controlled
from mast.backbone.load import PREVIEW
from mast.backbone.sites import sites_for
from mast.backbone.unet import SDUNet
from tests.backbone.test_instrument import Louder
from tests.tiny import make_unet

AVOIDED = {"diffusers", "transformers", "peft", "accelerate", "huggingface_hub", "tokenizers", "requests"}
AVOIDED |= {"torch._dynamo", "torch._inductor", "sympy", "scipy", "jinja2"}
START = """
import sys, torch
of_torch = len(sys.modules)
import mast
torch.set_num_threads(1)
backbone = mast.load("preview", device="cpu")
latent = backbone.encode(torch.zeros(1, 3, 64, 64))
with torch.inference_mode():
    backbone.predict(latent, 501)
backbone.decode(latent)
print(len(sys.modules) - of_torch, *sys.modules)
"""


def test_loading_and_using_the_embedded_model_imports_neither_diffusers_nor_transformers_nor_dynamo():
    ran = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    beyond_torch, *modules = ran.stdout.split()
    assert AVOIDED.isdisjoint(modules), sorted(AVOIDED.intersection(modules))
    assert int(beyond_torch) < 300


def same_bits(ours, theirs, size=(8, 16), batch=1) -> bool:
    generator = torch.Generator().manual_seed(0)
    config = theirs.config
    latent = torch.randn(batch, config.in_channels, *size, generator=generator)
    latent = latent.contiguous(memory_format=torch.channels_last)
    prompt = torch.randn(batch, 3, config.cross_attention_dim, generator=generator)
    with torch.inference_mode():
        pairs = [
            [unet(latent, t, encoder_hidden_states=prompt, return_dict=False)[0] for unet in (ours, theirs)]
            for t in (1, 501, 981)
        ]
        many = torch.arange(batch) * 100
        pairs.append([unet(latent, many, prompt).sample for unet in (ours, theirs)])
    assert pairs[0][0].std() > 0 and not torch.equal(pairs[0][0], pairs[1][0])
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.fixture(scope="module")
def diffusers_preview():
    unet = UNet2DConditionModel.from_pretrained(
        PREVIEW / "unet", torch_dtype=torch.float32, low_cpu_mem_usage=False
    )
    return unet.eval().requires_grad_(False).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(("size", "batch"), [((8, 8), 1), ((16, 24), 1), ((8, 16), 3), ((12, 20), 1)])
def test_the_embedded_weights_give_diffusers_bits(preview, diffusers_preview, size, batch):
    assert type(preview.unet).__name__ == "SDUNet"
    assert same_bits(preview.unet, diffusers_preview, size, batch)


def test_under_a_control_too(preview, diffusers_preview):
    plain = same_bits(preview.unet, diffusers_preview)
    sites = sites_for(preview.unet)
    assert plain and sites == sites_for(diffusers_preview)
    with controlled(preview.unet, sites, Louder()), controlled(diffusers_preview, sites, Louder()):
        assert same_bits(preview.unet, diffusers_preview)
    with controlled(preview.unet, sites, Louder()), pytest.raises(AssertionError):
        assert same_bits(preview.unet, diffusers_preview), "the control must have done something"


@pytest.mark.parametrize(
    "changes",
    [{}, {"use_linear_projection": True, "attention_head_dim": [4, 4, 8, 8]}, {"norm_num_groups": 16}],
)
def test_any_unet_of_the_layout_with_any_weights(changes):
    theirs = make_unet(**changes)
    ours = SDUNet(dict(theirs.config)).eval().requires_grad_(False)
    ours.load_state_dict(theirs.state_dict())
    assert same_bits(ours, theirs)
