"""Z* as its authors' code runs it: the style looks back, the pull fits the moves, and guidance with an empty
prompt that was optimised for the photo.
"""

from dataclasses import replace

import pytest
import torch

from mast import InputError, Job, Region
from mast.backbone.sites import Site
from mast.core import ddim
from mast.methods import ZStar, null_text
from mast.methods.null_text import guided, null_prompts
from mast.methods.zstar import _Pair
from tests.methods.scenes import scene_of, whole
from tests.tiny import picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
RELEASED = ZStar(released=True)
GUIDED = ZStar(released=True, guidance=7.5)


# ------------------------------------------------------------ the pull


@pytest.mark.parametrize("moves", [2, 12, 30, 49, 50])
def test_any_number_of_moves_pulls_as_far_as_the_authors_thirty(moves):
    schedule = ddim.Schedule(tuple(range(moves)), (0.5,) * moves, "epsilon", clean_end=0.9)
    pull = RELEASED.pull_of_a_move(schedule)
    assert (1 - pull) ** moves == pytest.approx(0.99**30)
    assert pull == pytest.approx(1 - 0.99 ** (30 / moves))
    assert RELEASED.pull_of_a_move(schedule.clean_part(1)) == pull, "a part of a schedule has its moves"
    assert ZStar().pull_of_a_move(schedule) == 0.01


@torch.inference_mode()
def test_a_step_is_pulled_by_that(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=4)
    scene.set_step(2)
    latent, goal = torch.zeros_like(scene.content.trajectory.noise), scene.content.trajectory.latents[1:2]
    torch.testing.assert_close(RELEASED.after_step(scene, latent), (1 - 0.99**10) * goal)


# ------------------------------------------------------------ the style that looks back


def dense(query, pairs):
    """softmax over the keys of several (key, value, weight), written out; (heads, tokens, d)."""
    logits = [weight * query @ key.transpose(1, 2) / query.shape[-1] ** 0.5 for key, _, weight in pairs]
    return torch.cat(logits, -1).softmax(-1) @ torch.cat([value for _, value, _ in pairs], 1)


@pytest.mark.parametrize("rows", [2, 4])
def test_style_and_picture_attend_to_each_other_for_every_prompt(tiny_backbone, rows):
    scene, site = scene_of(whole(), tiny_backbone, steps=6), tiny_backbone.sites[-1]
    query, key, value = torch.randn(3, rows, site.heads, 64, 8, generator=torch.Generator().manual_seed(0))
    scene.set_step(1)
    found = _Pair(RELEASED, scene).attend(site, query, key, value)
    for style in range(0, rows, 2):
        paint = style + 1
        back = [(key[paint], value[paint], 1.5), (key[style], value[style], 1.0)]
        torch.testing.assert_close(found[style], dense(query[style], back), atol=1e-5, rtol=1e-5)
        own = [(key[style], value[style], 1.2), (key[paint], value[paint], 1.0)]
        torch.testing.assert_close(found[paint], dense(query[paint], own), atol=1e-5, rtol=1e-5)
    scene.set_step(5)  # the first sixth is left alone
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    assert torch.equal(_Pair(RELEASED, scene).attend(site, query, key, value), plain)


def test_a_style_mask_hides_its_keys_from_the_picture(tiny_backbone):
    mask = torch.zeros(64, 64)
    mask[:, :32] = 1
    scene, site = scene_of(whole(style_mask=mask.numpy()), tiny_backbone), tiny_backbone.sites[-1]
    keep = scene.styles[0].keep[site.grid(scene.latent)]
    query, key, value = torch.randn(3, 2, site.heads, 64, 8, generator=torch.Generator().manual_seed(0))
    scene.set_step(1)
    own = [(key[0][:, keep], value[0][:, keep], 1.2), (key[1], value[1], 1.0)]
    found = _Pair(RELEASED, scene).attend(site, query, key, value)
    torch.testing.assert_close(found[1], dense(query[1], own), atol=1e-5, rtol=1e-5)


class Watched(_Pair):
    """What the style's first site is asked with, and its second."""

    seen: list = []

    def attend(self, site: Site, query, key, value):
        self.seen.append((self.scene.step, site.index, key[0]))
        return super().attend(site, query, key, value)


def test_the_style_is_its_inverted_latent_at_every_step_and_changes_from_site_to_site(
    tiny_backbone, monkeypatch
):
    monkeypatch.setattr("mast.methods.zstar._Pair", Watched)
    Watched.seen.clear()
    scene = scene_of(whole(), tiny_backbone, steps=4, feature_dtype="float32")
    replace(RELEASED, first=0).sample(scene)
    first, later = tiny_backbone.sites[0], tiny_backbone.sites[-1]
    for step, index, key in Watched.seen:
        scene.set_step(step)
        recorded = {site.index: scene.styles_at(site)[0].key for site in (first, later)}
        if index == first.index:  # nothing has looked at anything yet
            torch.testing.assert_close(key, recorded[index], atol=1e-2, rtol=0)  # of a batch of two
        if index == later.index:
            assert not torch.allclose(key, recorded[index], atol=0.1)
    assert [step for step, index, _ in Watched.seen if index == first.index] == [3, 2, 1]


def test_without_control_and_pull_it_is_the_reconstruction(tiny_backbone):
    plain = run(whole(), tiny_backbone, "reconstruct")
    still = run(whole(), tiny_backbone, ZStar(first=30, pull=0.0, released=True))
    torch.testing.assert_close(still.latent, plain.latent, atol=1e-3, rtol=0)  # a batch of two
    found = run(whole(), tiny_backbone, RELEASED)
    assert not found.same_bits(run(whole(), tiny_backbone, ZStar()))
    assert found.same_bits(run(whole(), tiny_backbone, RELEASED, features="replay", cache=False))
    assert found.result.provenance["method"]["released"] is True


def test_photo_and_style_of_two_sizes_are_refused_before_any_pass(tiny_backbone):
    job, told = Job(picture(96, 64, 1), (Region(picture(64, 64, 2)),)), []
    with pytest.raises(InputError, match=r"one size; here they work at 128x64 and 128x128 px.*--fit square"):
        run(job, tiny_backbone, RELEASED, size=128, callback_on_step_end=lambda *step: told.append(step))
    assert not told
    run(job, tiny_backbone, ZStar(), size=128, steps=2)


# ------------------------------------------------------------ guidance


@torch.inference_mode()
def test_every_prompt_brings_its_move_nearer_to_the_inversion_than_the_one_before(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone)
    trajectory, schedule, moves = scene.content.trajectory, scene.schedule, []
    nulls = null_prompts(tiny_backbone, trajectory, schedule, 7.5, moves.append)
    assert moves == [2, 1] and [null.shape for null in nulls] == [tiny_backbone.empty_prompt.shape] * 2
    z, before = trajectory.noise, tiny_backbone.empty_prompt
    for (i, to), null in zip(schedule.moves, nulls, strict=True):
        told = tiny_backbone.predict(z, schedule.timesteps[i])

        def moved(prompt, z=z, i=i, to=to, told=told):
            empty = tiny_backbone.predict(z, schedule.timesteps[i], prompt)
            return ddim.move(z, guided(empty, told, 7.5), schedule.alphas[i], to, "epsilon")[0]

        target = trajectory.latents[i - 1 : i]
        old, new = (float((moved(prompt) - target).pow(2).mean()) for prompt in (before, null))
        assert new < 0.97 * old
        z, before = moved(null), null
    again = null_prompts(tiny_backbone, trajectory, schedule, 7.5, moves.append)
    assert all(torch.equal(one, other) for one, other in zip(nulls, again, strict=True))


def test_it_stops_early_where_the_way_back_is_good_already(tiny_backbone, monkeypatch):
    scene, passes = scene_of(whole(), tiny_backbone, steps=3), []
    told = tiny_backbone.unet.conv_in.register_forward_hook(lambda *_: passes.append(1))
    try:
        null_prompts(tiny_backbone, scene.content.trajectory, scene.schedule, 7.5, lambda step: None)
        # By move: one for what the prompt says, one for each step of Adam, one to go on.
        assert len(passes) == 2 * (1 + null_text.INNER_STEPS + 1)
        passes.clear()
        monkeypatch.setattr(null_text, "ENOUGH", 1e9)
        null_prompts(tiny_backbone, scene.content.trajectory, scene.schedule, 7.5, lambda step: None)
        assert len(passes) == 2 * (1 + 1 + 1)
    finally:
        told.remove()


def test_guidance_moves_a_step_by_both_prompts(tiny_backbone):
    """One move, uncontrolled: what the two predictions give, written out."""
    scene, reports = scene_of(whole(), tiny_backbone, steps=2), []
    method = ZStar(released=True, guidance=7.5, first=30)
    found = method.sample(scene, lambda *report: reports.append(report))
    (_, nulls), schedule = method._found[0], scene.schedule
    with torch.inference_mode():
        noise, t = scene.content.trajectory.noise, schedule.timesteps[1]
        told, empty = tiny_backbone.predict(noise, t), tiny_backbone.predict(noise, t, nulls[0])
        prediction = empty + 7.5 * (told - empty)
        expected, _ = ddim.move(noise, prediction, schedule.alphas[1], schedule.alphas[0], "epsilon")
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert [step for step, *_ in reports] == [1, 1] and not torch.allclose(told, prediction, atol=1e-3)


def test_optimising_is_reported_and_done_once_for_all_regions_of_a_photo(tiny_backbone, job):
    passes: list = []
    hook = tiny_backbone.unet.conv_in.register_forward_hook(lambda *_: passes.append(1))
    method = replace(GUIDED)
    try:
        found = run(job, tiny_backbone, method)
    finally:
        hook.remove()
    reports = [report for report in found.progress if report.stage == "denoise"]
    assert [(r.done, r.total) for r in reports] == [(i, 8) for i in range(1, 9)]  # 2 regions, 2 moves, twice
    assert reports[0].x0().shape == (64, 64, 3), "the photo, meanwhile"
    assert len(passes) <= 3 * 3 + 2 * (null_text.INNER_STEPS + 2) + 2 * 2  # inversions, prompts, moves
    assert run(job, tiny_backbone, GUIDED).same_bits(found), "found anew, to the same bits"
    assert not run(job, tiny_backbone, RELEASED).same_bits(found)
    assert found.result.provenance["method"]["guidance"] == 7.5


def test_optimising_can_be_cancelled(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone)

    def cancel(step, latent, x0):
        raise KeyboardInterrupt

    method = replace(GUIDED)
    with pytest.raises(KeyboardInterrupt):
        method.sample(scene, cancel)
    assert not method._found
    assert all("AttnProcessor" in type(p).__name__ for p in tiny_backbone.unet.attn_processors.values())


def test_a_model_without_a_text_encoder_is_refused_before_any_pass(preview):
    told: list = []
    with pytest.raises(InputError, match=r"preview: it was trained without a text encoder.*guidance at 1"):
        run(whole(), preview, GUIDED, callback_on_step_end=lambda *step: told.append(step))
    assert not told and not preview.has_text
    assert torch.isfinite(run(whole(), preview, RELEASED).latent).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"guidance": 7.5}, "part of released=on"),
        *[({"guidance": value, "released": True}, "from 1") for value in (0.5, -1, 31, float("nan"))],
    ],
)
def test_guidance_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(InputError, match=f"guidance is.*{said}"):
        ZStar(**options)
