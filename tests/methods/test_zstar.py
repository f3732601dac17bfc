"""Z*: style keys beside the picture's own, only in some steps, with a pull to the photo."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError, Job, Reconstruct, Region
from mast.core import ddim
from mast.methods import ZStar
from tests.methods.scenes import scene_of, whole
from tests.tiny import picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")


def test_the_authors_schedule_is_controlled_from_step_5_to_29_of_30():
    controlled = [30 - step for step in range(30, 0, -1) if ZStar().controls(step, 31)]
    assert controlled == list(range(5, 30))
    assert [30 - s for s in range(30, 0, -1) if ZStar(first=3, last=7).controls(s, 31)] == [3, 4, 5, 6, 7]


@given(st.integers(2, 200), st.integers(0, 29), st.integers(0, 29))
def test_other_schedules_control_the_same_share_of_their_steps(steps, first, last):
    method = ZStar(first=first, last=last)
    share = sum(method.controls(step, steps) for step in range(1, steps)) / (steps - 1)
    assert abs(share - max(0, last + 1 - first) / 30) <= 1 / (steps - 1)
    assert not any(ZStar(first=30).controls(step, steps) for step in range(1, steps))


def test_without_control_and_pull_it_is_the_reconstruction_bit_by_bit(tiny_backbone):
    plain = run(whole(), tiny_backbone, Reconstruct())
    assert run(whole(), tiny_backbone, ZStar(first=30, pull=0.0)).same_bits(plain)
    assert not run(whole(), tiny_backbone, ZStar(first=30)).same_bits(plain)
    assert not run(whole(), tiny_backbone, ZStar(pull=0.0, first=0)).same_bits(plain)


def test_a_photo_that_is_its_own_style_is_reconstructed(tiny_backbone):
    # At the first step the picture's keys are the style's: each key twice changes nothing.
    photo = picture(64, 64, 1)
    job = Job(photo, (Region(photo),))
    own = run(job, tiny_backbone, ZStar(weight=1.0, first=0), steps=2, feature_dtype="float32")
    plain = run(job, tiny_backbone, Reconstruct(), steps=2)
    torch.testing.assert_close(own.latent, plain.latent, atol=1e-4, rtol=0)


@dataclass(frozen=True)
class Checked(ZStar):
    """Z* that compares its sites with the formula, written out."""

    visits: ClassVar[list] = []

    def attend(self, scene, site, query, key, value):
        found = super().attend(scene, site, query, key, value)
        style = scene.styles_at(site)[0]
        scale = query.shape[-1] ** -0.5
        logits = torch.cat(
            [1.2 * query[0] @ style.key.transpose(1, 2), query[0] @ key[0].transpose(1, 2)], -1
        )
        expected = (scale * logits).softmax(-1) @ torch.cat([style.value, value[0]], 1)
        plain = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        controlled = self.controls(scene.step, len(scene.schedule))
        torch.testing.assert_close(found[0], expected if controlled else plain[0], atol=1e-4, rtol=0)
        self.visits.append((scene.step, controlled))
        return found


def test_controlled_steps_are_the_papers_formula_and_the_others_plain(tiny_backbone):
    Checked.visits.clear()
    run(whole(3, 128, 64), tiny_backbone, Checked(), steps=6, size=128)
    assert set(Checked.visits) == {(5, False), (4, True), (3, True), (2, True), (1, True)}


def test_it_starts_at_the_photos_noise_and_each_step_is_pulled_to_the_inverted_photo(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=5)
    trajectory, schedule, reports = scene.content.trajectory, scene.schedule, []
    assert torch.equal(ZStar().start(scene), trajectory.noise)
    with torch.inference_mode():
        last = ZStar(first=30, pull=1.0).sample(scene, lambda *report: reports.append(report))
        for step, latent, _ in reports[:-1]:
            torch.testing.assert_close(latent, trajectory.latents[step - 1 : step], atol=1e-5, rtol=1e-5)
        # Nothing follows the last step, so nothing is pulled before it.
        prediction = tiny_backbone.predict(trajectory.latents[1:2], schedule.timesteps[1])
        alone, _ = ddim.move(
            trajectory.latents[1:2], prediction, schedule.alphas[1], schedule.alphas[0], "epsilon"
        )
    torch.testing.assert_close(last, alone, atol=1e-4, rtol=1e-4)


def test_recorded_and_replayed_features_give_the_same_bits(tiny_backbone):
    recorded = run(whole(4), tiny_backbone, ZStar(), features="memory")
    assert recorded.same_bits(run(whole(4), tiny_backbone, ZStar(), features="replay", cache=False))


@pytest.mark.parametrize(
    "options",
    [
        *[{"weight": value} for value in (-1, 21, float("nan"))],
        *[{"first": value} for value in (-1, 31, 2.5, True)],
        *[{"last": value} for value in (-1, 30, 2.5)],
        *[{"pull": value} for value in (-0.1, 1.1, float("nan"))],
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        ZStar(**options)


def test_several_styles_at_once_are_refused(tiny_backbone, job):
    with pytest.raises(InputError, match="zstar paints with one style"):
        ZStar().sample(scene_of(job, tiny_backbone))
