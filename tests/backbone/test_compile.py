"""torch.compile on the blocks no control reaches; dynamo's own backend, as a C++ compiler takes minutes."""

import torch

import mast
from mast import Mast
from tests.tiny import run


def test_a_compiled_model_paints_the_same_picture_and_says_so(tiny_sd_folder, tiny_backbone, job):
    compiled = mast.load(tiny_sd_folder, device="cpu").compile("eager")
    assert compiled.fingerprint == tiny_backbone.fingerprint
    plain, fast = run(job, tiny_backbone, Mast()), run(job, compiled, Mast())
    assert (plain.latent - fast.latent).abs().max() < 1e-3
    assert fast.result.provenance["compiled"] and not plain.result.provenance["compiled"]
    assert run(job, compiled, Mast()).same_bits(fast)
    torch._dynamo.reset()
