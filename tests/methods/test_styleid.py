"""StyleID: one family with MAST, any size and any source of features, and the authors' own schedule."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from mast import InputError, Job, Mast, Region
from mast.core import ddim
from mast.core.adain import adain
from mast.core.attention import Partition, dense_attention
from mast.methods import StyleID, make
from tests.methods.scenes import scene_of, whole
from tests.tiny import picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")


def half() -> np.ndarray:
    mask = np.zeros((64, 64), np.float32)
    mask[:, :32] = 1
    return mask


def same_family(gamma: float, temperature: float) -> Mast:
    """MAST as StyleID: LAMA with all the mass on the style (pi* = 1) takes the content partition away, and a
    fixed tau is the temperature. On a full mask LAMA does nothing else: within one partition its bias is the
    same for every key. With `lama` and `sts` literally off there would be no way to say either of the two.
    """
    return Mast(lam=gamma, pi=1.0, tau=temperature, ddi=False)


@pytest.mark.parametrize("gamma, temperature", [(0.75, 1.5), (0.3, 1.5), (0.0, 1.0), (1.0, 3.0)])
def test_with_one_style_it_is_mast_without_content_partition_and_detail(tiny_backbone, gamma, temperature):
    job = whole()
    ours = run(job, tiny_backbone, StyleID(gamma, temperature), steps=5)
    family = run(job, tiny_backbone, same_family(gamma, temperature), steps=5)
    torch.testing.assert_close(ours.latent, family.latent, atol=1e-4, rtol=0)


def test_it_is_that_mast_with_a_style_mask_and_a_style_of_another_size(tiny_backbone):
    job = whole(3, 128, 64, style_mask=np.ones((64, 128), np.float32) * (np.arange(128) < 80))
    ours = run(job, tiny_backbone, StyleID(), size=128)
    family = run(job, tiny_backbone, same_family(0.75, 1.5), size=128)
    torch.testing.assert_close(ours.latent, family.latent, atol=1e-4, rtol=0)


def test_it_is_that_mast_on_the_trained_model(preview):
    ours = run(whole(), preview, StyleID(0.3), steps=4)
    family = run(whole(), preview, same_family(0.3, 1.5), steps=4)
    torch.testing.assert_close(ours.latent, family.latent, atol=1e-4, rtol=0)
    assert float((ours.latent - run(whole(), preview, "reconstruct", steps=4).latent).abs().max()) > 0.1


@dataclass(frozen=True)
class Checked(StyleID):
    """StyleID that compares every site with MAST's dense form, everything off and no content keys."""

    visits: ClassVar[list] = []

    def attend(self, scene, site, query, key, value):
        found = super().attend(scene, site, query, key, value)
        content, style = scene.content_at(site), scene.styles_at(site)[0]
        blended = self.gamma * content.query + (1 - self.gamma) * query[0].float()
        nothing = style.key[:, :0]
        dense = dense_attention(
            [Partition(self.temperature * blended, style.key, style.value)],
            Partition(content.query, nothing, nothing),
        )
        torch.testing.assert_close(found[0], dense.output, atol=1e-4, rtol=0)
        self.visits.append((scene.step, site.index))
        return found


def test_every_site_is_the_plain_softmax_of_mast_with_lama_sts_ddi_off(tiny_backbone):
    Checked.visits.clear()
    run(whole(), tiny_backbone, Checked())
    assert Checked.visits == [(step, site) for step in (2, 1) for site in range(6)]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("width, height", [(96, 64), (64, 128)])
def test_photos_and_styles_of_any_shape(tiny_backbone, width, height, released):
    job = Job(picture(width, height, 1), (Region(picture(64, 96, 2)),))
    found = run(job, tiny_backbone, StyleID(released=released), size=max(width, height))
    assert found.result.image.size == (width, height) and torch.isfinite(found.latent).all()


@pytest.mark.parametrize("released", [False, True])
def test_recorded_replayed_and_cached_features_give_the_same_bits(tiny_backbone, released):
    method = StyleID(released=released)
    recorded = run(whole(4), tiny_backbone, method, features="memory")
    assert recorded.same_bits(run(whole(4), tiny_backbone, method, features="replay", cache=False))
    assert recorded.same_bits(run(whole(4), tiny_backbone, method, features="memory"))


@pytest.mark.parametrize("change", [{"gamma": 0.3}, {"temperature": 1.0}, {"released": True}])
def test_every_option_changes_the_picture(tiny_backbone, change):
    assert not run(whole(), tiny_backbone, StyleID()).same_bits(
        run(whole(), tiny_backbone, StyleID(**change))
    )


def test_a_style_mask_decides_what_is_seen_of_the_style(tiny_backbone):
    part = run(whole(style_mask=half()), tiny_backbone, StyleID())
    assert not part.same_bits(run(whole(), tiny_backbone, StyleID()))
    everything = np.ones((64, 64), np.float32)
    full = run(whole(style_mask=everything), tiny_backbone, StyleID())
    torch.testing.assert_close(full.latent, run(whole(), tiny_backbone, StyleID()).latent, atol=1e-4, rtol=0)


# ------------------------------------------------------------ the authors' schedule


@torch.inference_mode()
def test_the_authors_schedule_starts_past_the_end_and_ends_before_the_beginning(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=4)
    schedule, alphas = scene.schedule, ddim.cumulative_alphas(tiny_backbone.scheduler.config)

    def further(noise):
        epsilon = tiny_backbone.predict(noise, schedule.timesteps[-1])
        return ddim.carry(noise, epsilon, schedule.alphas[-1], float(alphas[999]))

    content, style = scene.content.trajectory.noise, scene.styles[0].trajectory.noise
    expected = adain(further(content), further(style))
    torch.testing.assert_close(StyleID(released=True).start(scene), expected, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_the_authors_schedule_leaves_out_the_first_step_and_goes_on_to_timestep_0(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=4)
    method, reports = StyleID(released=True), []
    result = method.sample(scene, lambda *report: reports.append(report))
    assert [step for step, *_ in reports] == [2, 1, 0] and len(reports) == method.reported_steps(
        scene.schedule
    )
    (_, before, _), (_, last, x0) = reports[-2:]
    alpha, end = scene.schedule.alphas[0], float(ddim.cumulative_alphas(tiny_backbone.scheduler.config)[0])
    noise = (before - alpha**0.5 * x0) / (1 - alpha) ** 0.5
    torch.testing.assert_close(last, end**0.5 * x0 + (1 - end) ** 0.5 * noise, atol=1e-4, rtol=1e-4)
    assert torch.equal(result, last) and end > alpha


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "options",
    [
        *[{"gamma": value} for value in (-0.1, 1.1, float("nan"))],
        *[{"temperature": value} for value in (0, -1.0, 21, float("nan"), float("inf"))],
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        StyleID(**options)


def test_several_styles_at_once_are_refused(tiny_backbone, job):
    scene = scene_of(job, tiny_backbone)
    with pytest.raises(InputError, match="styleid paints with one style"):
        StyleID().sample(scene)
    assert StyleID().sample(scene.alone(0, whole=True)).shape == scene.content.trajectory.noise.shape


def test_options_of_a_methods_own_cannot_be_given():
    with pytest.raises(InputError, match="no option '_secret'"):
        make("styleid", _secret=1)
    assert replace(StyleID(), gamma=0.3) == make("styleid", gamma=0.3)
