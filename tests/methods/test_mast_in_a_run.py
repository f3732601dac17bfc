"""MAST at the sites of a real run: masses as asked for, the dense form, switches that are the ablation."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from mast import Job, Mast, Reconstruct, Region, SharedAttention
from mast.core import ddi
from mast.core.attention import Partition, dense_attention, dense_logits
from mast.methods.method import DiffusionMethod
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")


@dataclass(frozen=True)
class Checked(Mast):
    """MAST that compares every site of every step with the paper's dense form while it runs."""

    visits = []

    def joint(self, scene, site, query):
        found = super().joint(scene, site, query)
        content = scene.content_at(site)
        blended = self.lam * content.query + (1 - self.lam) * query[0].float()
        styles = [Partition(blended, style.key, style.value) for style in scene.styles_at(site)]
        own = Partition(content.query, content.key, content.value)
        masses = self.masses(scene, site) if self.lama else None
        dense = dense_attention(styles, own, masses, self.tau_rule)
        torch.testing.assert_close(found.output, dense.output, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.tau, dense.tau, atol=1e-4, rtol=1e-4)
        if masses is not None:
            h, w = site.grid(scene.latent)
            assert masses.shape == (len(styles) + 1, h * w)
            attention = dense_logits(styles, own, masses).softmax(-1)
            keys = [part.key.shape[1] for part in (*styles, own)]
            realised = torch.stack([part.sum(-1) for part in attention.split(keys, -1)])
            assert float((realised - masses.unsqueeze(1)).abs().max()) < 1e-6
        self.visits.append((scene.step, site.index, keys if masses is not None else None))
        return found


@pytest.fixture(autouse=True)
def fresh():
    Checked.visits.clear()


def soft_job() -> Job:
    """Three regions: one soft, one hard, one faint. Part of the photo is nobody's; one style is larger."""
    left, _ = halves(64, 64)
    soft = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (64, 1)) * (1 - left)
    corner = np.zeros((64, 64), np.float32)
    corner[:32, :32] = 1
    return Job(
        picture(64, 64, 1),
        (
            Region(picture(64, 64, 2), soft),
            Region(picture(128, 64, 3), corner),
            Region(picture(64, 64, 4), np.roll(corner, 32, 0), strength=0.3),
        ),
    )


@pytest.mark.parametrize("options", [{}, {"pi": 1.0}, {"tau": 1.7}, {"sts": False}, {"lama": False}])
def test_realised_masses_are_the_targets_at_every_site_and_step(tiny_backbone, options):
    run(soft_job(), tiny_backbone, Checked(**options))
    assert [visit[:2] for visit in Checked.visits] == [(step, site) for step in (2, 1) for site in range(6)]


def test_styles_bring_their_own_number_of_keys(tiny_backbone):
    job = Job(
        picture(64, 64, 1), (Region(picture(64, 64, 2), halves(64, 64)[0]), Region(picture(128, 64, 3)))
    )
    run(job, tiny_backbone, Checked(), size=128, steps=2)
    assert Checked.visits[0][2] == [64, 32, 64] and Checked.visits[-1][2] == [256, 128, 256]


@pytest.mark.parametrize(
    "switch", [{"lama": False}, {"sts": False}, {"ddi": False}, {"lam": 0.9}, {"pi": 0.3}, {"r": 0.9}]
)
def test_every_option_of_the_ablation_changes_the_picture(tiny_backbone, job, switch):
    full = run(job, tiny_backbone, Mast(tau=(0.0, 0.0, 2.0)))
    assert not full.same_bits(run(job, tiny_backbone, Mast(**{"tau": (0.0, 0.0, 2.0), **switch})))


def test_shared_attention_is_mast_with_everything_off_bit_by_bit(tiny_backbone, job):
    base = run(job, tiny_backbone, SharedAttention())
    assert base.same_bits(run(job, tiny_backbone, Mast(lama=False, sts=False, ddi=False)))
    assert base.same_bits(run(job, tiny_backbone, "shared"))


def test_a_fixed_factor_of_1_is_sts_switched_off(tiny_backbone, job):
    assert run(job, tiny_backbone, Mast(tau=1.0)).same_bits(run(job, tiny_backbone, Mast(sts=False)))


def test_a_tiny_floor_of_the_masses_hardly_matters(tiny_backbone, job):
    exact, floored = run(job, tiny_backbone), run(job, tiny_backbone, Mast(mass_floor=1e-6))
    torch.testing.assert_close(floored.latent, exact.latent, atol=1e-3, rtol=1e-3)


@dataclass(frozen=True)
class Watched(Mast):
    """MAST that keeps what DDI was given."""

    seen = []

    def residual(self, scene, site, branch):
        result = super().residual(scene, site, branch)
        self.seen.append((site.index, branch, scene.content_at(site).residual, result))
        return result


def test_detail_is_injected_in_every_residual_block_of_every_step(tiny_backbone, job):
    Watched.seen.clear()
    run(job, tiny_backbone, Watched())
    assert [index for index, *_ in Watched.seen] == [*range(6)] * 2
    for _, branch, content, result in Watched.seen:
        assert torch.equal(result, ddi.inject(branch, content, 0.3))
        assert 0 <= float(ddi.discrepancy(branch, content)) <= 2


@dataclass(frozen=True)
class OwnKeys(DiffusionMethod):
    """A method of another kind: nothing recorded of the content, the stream's own keys and values in use."""

    name = "own"
    style_features = frozenset({"key", "value"})

    def attend(self, scene, site, query, key, value):
        style = scene.styles_at(site)[0]
        keys, values = torch.cat([key[0], style.key], 1), torch.cat([value[0], style.value], 1)
        return torch.nn.functional.scaled_dot_product_attention(query, keys[None], values[None])

    def after_step(self, scene, latent):
        return latent + 0.01 * (scene.content.trajectory.latents[scene.step - 1] - latent)


@dataclass(frozen=True)
class OwnLoop(DiffusionMethod):
    """A method that does not sample at all."""

    name = "loop"

    def sample(self, scene, on_step=None):
        on_step(1, scene.content.trajectory.noise, scene.content.trajectory.noise)
        return scene.content.trajectory.latents[:1]


def test_the_interface_fits_methods_of_other_kinds(tiny_backbone, job):
    plain = run(job, tiny_backbone, Reconstruct())
    assert not run(job, tiny_backbone, OwnKeys()).same_bits(plain)
    own = run(job, tiny_backbone, OwnLoop())
    assert own.result.provenance["method"] == {"name": "loop"}
