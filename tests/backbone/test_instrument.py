"""Lending a U-Net a control changes nothing but what the control does, and leaves no trace."""

import pytest
import torch

from mast.backbone.instrument import Identity, StopForward, controlled
from mast.backbone.sites import sites_for


def run(unet, size=(8, 16)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    latent = torch.randn(1, 4, *size, generator=generator)
    prompt = torch.randn(1, 8, 32, generator=generator)
    with torch.inference_mode():
        return unet(latent, 500, prompt).sample


def hooks(unet) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return sum(len(getattr(module, kind)) for module in unet.modules() for kind in kinds)


class Louder(Identity):
    """Doubles what the sites say, and counts its visits."""

    def __init__(self):
        self.visits = []

    def attend(self, site, query, key, value):
        self.visits.append(("attend", site.index, tuple(query.shape)))
        return 2 * super().attend(site, query, key, value)

    def residual(self, site, branch):
        self.visits.append(("residual", site.index, tuple(branch.shape)))
        return 2 * branch


class Failing(Identity):
    def __init__(self, error: BaseException):
        self.error = error

    def attend(self, site, query, key, value):
        if site.index == 3:
            raise self.error
        return super().attend(site, query, key, value)


@pytest.mark.parametrize("size", [(8, 8), (8, 16), (24, 8)])
def test_the_identity_control_is_the_plain_unet_with_no_difference_at_all(tiny_unet, size):
    plain = run(tiny_unet, size)
    with controlled(tiny_unet, sites_for(tiny_unet), Identity()):
        assert float((run(tiny_unet, size) - plain).abs().max()) == 0.0


def test_a_control_is_asked_at_every_site_in_order_with_the_shapes_it_is_promised(tiny_unet):
    control = Louder()
    with controlled(tiny_unet, sites_for(tiny_unet), control):
        run(tiny_unet)
    assert [visit[:2] for visit in control.visits] == [
        (what, index) for index in range(6) for what in ("residual", "attend")
    ]
    assert control.visits[0][2] == (1, 32, 4, 8) and control.visits[1][2] == (1, 8, 32, 4)
    assert control.visits[-2][2] == (1, 32, 8, 16) and control.visits[-1][2] == (1, 8, 128, 4)


def test_after_leaving_everything_is_as_it_was(tiny_unet):
    plain, processors, before = run(tiny_unet), dict(tiny_unet.attn_processors), hooks(tiny_unet)
    attributes = [set(vars(module)) for module in tiny_unet.modules()]
    with controlled(tiny_unet, sites_for(tiny_unet), Louder()):
        assert not torch.equal(run(tiny_unet), plain)
        assert hooks(tiny_unet) == before + 6
    assert all(tiny_unet.attn_processors[name] is kept for name, kept in processors.items())
    assert hooks(tiny_unet) == before
    assert [set(vars(module)) for module in tiny_unet.modules()] == attributes
    assert torch.equal(run(tiny_unet), plain)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), StopForward()])
def test_leaving_by_an_exception_restores_just_as_well(tiny_unet, error):
    plain, processors, before = run(tiny_unet), dict(tiny_unet.attn_processors), hooks(tiny_unet)
    with pytest.raises(type(error)), controlled(tiny_unet, sites_for(tiny_unet), Failing(error)):
        run(tiny_unet)
    assert all(tiny_unet.attn_processors[name] is kept for name, kept in processors.items())
    assert hooks(tiny_unet) == before
    assert torch.equal(run(tiny_unet), plain)


def test_a_site_that_does_not_exist_leaves_the_unet_untouched(tiny_unet):
    from dataclasses import replace

    sites = sites_for(tiny_unet)
    processors, before = dict(tiny_unet.attn_processors), hooks(tiny_unet)
    wrong = (*sites[:3], replace(sites[3], residual="up_blocks.9"))
    with pytest.raises(AttributeError), controlled(tiny_unet, wrong, Identity()):
        pass
    assert all(tiny_unet.attn_processors[name] is kept for name, kept in processors.items())
    assert hooks(tiny_unet) == before


def test_controls_nest_and_each_leaves_the_one_outside_in_force(tiny_unet):
    sites, plain = sites_for(tiny_unet), run(tiny_unet)
    with controlled(tiny_unet, sites, Louder()):
        loud = run(tiny_unet)
        with controlled(tiny_unet, sites, Identity()):
            assert torch.equal(run(tiny_unet), plain), (
                "only the innermost control acts, at both kinds of places"
            )
        assert torch.equal(run(tiny_unet), loud)
    assert torch.equal(run(tiny_unet), plain)


def test_a_processor_the_user_set_comes_back(tiny_unet):
    from diffusers.models.attention_processor import AttnProcessor

    sites = sites_for(tiny_unet)
    attention = tiny_unet.get_submodule(sites[0].attention)
    before, own = attention.processor, AttnProcessor()
    attention.set_processor(own)
    try:
        with controlled(tiny_unet, sites, Identity()):
            assert attention.processor is not own
        assert attention.processor is own
    finally:
        attention.set_processor(before)


def test_visit_ends_where_the_control_says_so(tiny_backbone):
    control = Failing(StopForward())
    with controlled(tiny_backbone.unet, tiny_backbone.sites, control), torch.inference_mode():
        tiny_backbone.visit(torch.zeros(1, 4, 8, 8), 1)
