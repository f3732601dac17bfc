"""The switch `released`: every baseline of the paper has it, and with it does what its authors' code does."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mast import InputError, Job, Region
from mast.backbone.instrument import Identity, controlled
from mast.backbone.taps import block_features
from mast.core import ddim
from mast.methods import METHODS, CoCoDiff, Mast, StyleGallery, StyleID, as_released, make, option_names
from mast.methods.cocodiff import NOISINGS, _Paired, feature_block
from mast.methods.matching import matched, merged, short_features, short_inversion
from tests.methods.scenes import scene_of, whole
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
BASELINES = {"styleid", "zstar", "cocodiff", "stylegallery", "any-to-any", "stylemixer", "bpc"}


def test_every_baseline_of_the_paper_has_the_switch_and_says_what_it_does():
    assert {name for name, method in METHODS.items() if "released" in option_names(method)} == BASELINES
    for name, kind in METHODS.items():
        method = make(name)
        again = as_released(method)
        assert not method.released and again.released == (name in BASELINES) == bool(kind.released_changes)
        assert again.options() == {**method.options(), **({"released": True} if name in BASELINES else {})}
        assert make(name, **again.options()) == again


def test_other_options_stay_and_a_method_without_the_switch_is_left_alone():
    assert as_released(StyleID(gamma=0.3)) == StyleID(gamma=0.3, released=True)
    method = Mast(lam=0.1)
    assert as_released(method) is method


# ------------------------------------------------------------ StyleID


@pytest.mark.parametrize("clean_end", [None, 0.9991])
def test_styleid_denoises_from_961_to_1_and_on_to_0_whatever_the_schedules_end(tiny_backbone, clean_end):
    scene = scene_of(whole(), tiny_backbone)
    schedule = replace(tiny_backbone.schedule(50), clean_end=clean_end)
    method, fifty = StyleID(released=True), replace(scene, schedule=schedule)
    path = method.denoising_path(fifty)
    assert [schedule.timesteps[i] for i, _ in path] == list(range(961, 0, -20))
    alphas = ddim.cumulative_alphas(tiny_backbone.scheduler.config)
    assert [to for _, to in path] == pytest.approx([float(alphas[t]) for t in (*range(941, 0, -20), 0)])
    assert method.reported_steps(schedule) == len(path) == 49
    assert StyleID().reported_steps(schedule) == (49 if clean_end is None else 50)


def test_a_run_that_goes_on_from_a_smaller_picture_makes_the_ordinary_moves(tiny_backbone):
    scene, part = scene_of(whole(), tiny_backbone), tiny_backbone.schedule(10).clean_part(5)
    ours = StyleID().denoising_path(replace(scene, schedule=part))
    assert StyleID(released=True).denoising_path(replace(scene, schedule=part)) == ours == part.moves
    for method in (StyleID(released=True), CoCoDiff(released=True)):
        found = run(whole(), tiny_backbone, method, size=128, coarse=64, steps=4, refine=0.5)
        reports = [report for report in found.progress if report.stage == "denoise"]
        for level in (0, 1):
            counted = [(report.done, report.total) for report in reports if report.level == level]
            assert [done for done, _ in counted] == list(range(1, counted[0][1] + 1))


# ------------------------------------------------------------ CoCoDiff


def test_cocodiffs_second_threshold_holds_everywhere_after_the_first_step(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=5)
    coarse = max(tiny_backbone.sites, key=lambda site: site.shrink)
    method = CoCoDiff(threshold=0.0, fine_threshold=1.0, released=True)
    blocks = {feature_block(site) for site in tiny_backbone.sites}
    generator = torch.Generator().manual_seed(0)
    looks = [
        {block: torch.rand(6, *grid_of(tiny_backbone, scene, block), generator=generator) for block in blocks}
        for _ in range(2)
    ]
    partners = method._partners(scene, *looks, method.threshold)
    later = method._partners(scene, *looks, method.fine_threshold)
    plain, changed = StyleID(released=True), []
    first, _ = plain.denoising_path(scene)[0]
    paired = _Paired(0.75, 1.5, True, first, partners, later)
    for step, _ in paired.denoising_path(scene):
        scene.set_step(step)
        both = paired.key_value(scene, coarse)[0], plain.key_value(scene, coarse)[0]
        changed.append(not torch.equal(*both))
    assert changed == [True, False, False, False]


def grid_of(backbone, scene, block):
    return next(site.grid(scene.latent) for site in backbone.sites if feature_block(site) == block)


@torch.inference_mode()
def test_cocodiff_matches_the_mean_of_eight_seeded_noisings_of_the_decoded_picture(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=4)
    method = CoCoDiff(released=True)
    # The style in the photo's appearance: StyleID, as released, to its very end.
    exchanged = Job(picture(64, 64, 2), (Region(picture(64, 64, 1)),))
    expected = run(exchanged, tiny_backbone, StyleID(released=True), steps=4).latent
    rendered = method._reversed(scene, None)
    assert torch.equal(rendered, expected)
    levels = np.floor((tiny_backbone.decode(rendered).clamp(-1, 1).numpy() + 1) / 2 * 255)
    again = tiny_backbone.encode(torch.from_numpy(levels).float() / 127.5 - 1)
    alpha = float(ddim.cumulative_alphas(tiny_backbone.scheduler.config)[261])
    generator = torch.Generator().manual_seed(22)
    blocks = list(dict.fromkeys(feature_block(site) for site in tiny_backbone.sites))
    found = method._looks_again(scene, rendered, blocks, None)
    for clean, features in zip((scene.content.trajectory.clean, again), found, strict=True):
        seen = []
        for _ in range(8):
            noise = torch.randn(clean.shape, generator=generator)
            noisy = alpha**0.5 * clean + (1 - alpha) ** 0.5 * noise
            seen.append(block_features(tiny_backbone, noisy, 261, blocks))
        for block in blocks:
            mean = torch.stack([look[block] for look in seen]).mean(0)
            torch.testing.assert_close(features[block], mean, atol=1e-4, rtol=1e-4)


def test_cocodiffs_noise_is_the_same_every_time_and_its_seed_is_recorded(tiny_backbone):
    method = CoCoDiff(released=True, threshold=0.0, fine_threshold=0.0)
    first = run(whole(), tiny_backbone, method, steps=4)
    torch.manual_seed(5)  # whoever else draws numbers
    assert first.same_bits(run(whole(), tiny_backbone, method, steps=4, features="replay", cache=False))
    assert not first.same_bits(run(whole(), tiny_backbone, replace(method, seed=23), steps=4))
    record = first.result.provenance["method"]
    assert record["seed"] == 22 and record["released"] is True
    reports = [report for report in first.progress if report.stage == "denoise"]
    assert len(reports) == reports[0].total == 3 + 2 * NOISINGS + 3
    for seed in (-1, 2.5, True):
        with pytest.raises(InputError, match="seed"):
            CoCoDiff(seed=seed)


# ------------------------------------------------------------ StyleGallery


def test_stylegallery_starts_where_an_inversion_of_15_moves_ends_at_925(tiny_backbone, job):
    scene = scene_of(job, tiny_backbone)
    alphas = ddim.cumulative_alphas(tiny_backbone.scheduler.config)
    z, before, told = scene.content.trajectory.clean.clone(), 0, []
    for t in range(1, 926, 66):
        # Told the timestep that it leads to. A random network amplifies rounding: the same arithmetic.
        z, before = ddim.carry(z, tiny_backbone.predict(z, t), float(alphas[before]), float(alphas[t])), t
    found = short_inversion(scene, scene.content, on_pass=told.append)
    torch.testing.assert_close(found.noise, z, atol=1e-6, rtol=0)
    assert told == list(range(1, 926, 66)) and len(told) == 15
    start = StyleGallery(steps=0, released=True).sample(scene)
    torch.testing.assert_close(start, (z - z.mean(1)) / (z.std(1) + 1e-8), atol=1e-4, rtol=0)
    assert not torch.allclose(start, StyleGallery(steps=0).sample(scene), atol=1e-2)


def test_every_pass_of_stylegallerys_start_is_reported_and_can_end_the_run(tiny_backbone, job):
    method = StyleGallery(steps=2, released=True)
    found = run(job, tiny_backbone, method)
    reports = [report for report in found.progress if report.stage == "denoise"]
    assert [(report.done, report.total) for report in reports] == [(i, 17) for i in range(1, 18)]
    assert run(job, tiny_backbone, method).same_bits(found)

    def cancel(step, latent, x0):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.sample(scene_of(job, tiny_backbone), cancel)


def test_keys_outside_a_partial_style_are_zero_and_still_take_part(tiny_backbone):
    left, _ = halves(64, 64)
    scene = scene_of(whole(style_mask=left), tiny_backbone)
    latent = scene.content.trajectory.clean.clone() + 0.1

    class Watch(Identity):
        def __init__(self):
            self.seen = []

        def attend(self, site, query, key, value):
            output = super().attend(site, query, key, value)
            self.seen.append((site, query[0], key[0], value[0], output[0]))
            return output

    def look(z):
        watch = Watch()
        with torch.no_grad(), controlled(tiny_backbone.unet, tiny_backbone.sites, watch):
            tiny_backbone.predict(z, 500)
        return watch.seen

    style = look(scene.styles[0].trajectory.clean.clone())
    expected = 0.0
    for (site, query, _, _, output), (_, _, key, value, _) in zip(look(latent), style, strict=True):
        grid = site.grid(scene.latent)
        inside = torch.zeros(grid)
        inside[:, : grid[1] // 2] = 1
        column = inside.flatten()[:, None]
        logits = 1.5 * query @ (key * column).transpose(1, 2) / query.shape[-1] ** 0.5
        expected += float((output - logits.softmax(-1) @ (value * column)).abs().mean())
    released = StyleGallery(content_weight=0.0, released=True)
    assert float(released.loss(scene, latent, 500)) == pytest.approx(expected, rel=1e-4)
    assert float(StyleGallery(content_weight=0.0).loss(scene, latent, 500)) != pytest.approx(
        expected, rel=1e-3
    )


def test_clusters_of_near_colours_merge():
    labels = torch.tensor([0, 0, 1, 2, 2, 3])
    apart = torch.tensor([0.0, 2.0, 4.0, 6.0])
    assert torch.equal(merged(labels, apart[labels][:, None]), labels)
    near = torch.tensor([0.0, 2.0, 0.84, 6.0])
    assert merged(labels, near[labels][:, None]).tolist() == [0, 0, 1, 0, 0, 2]
    assert torch.equal(merged(labels, (near + torch.tensor([0, 0, 0.02, 0]))[labels][:, None]), labels)
    # 3 is near to all; it joins the last of them, 2, which is far from 0 and 1.
    chain = torch.tensor([0.5, 0.0, 1.4, 0.7])
    assert merged(labels, chain[labels][:, None], 0.75).tolist() == [0, 0, 0, 1, 1, 1]


def test_regions_found_as_released_come_from_the_short_inversion_and_merge(tiny_backbone, job):
    scene = scene_of(job, tiny_backbone, steps=5)
    features = short_features(scene, scene.content)
    assert tuple(features.shape[1:]) == max(site.grid(scene.latent) for site in tiny_backbone.sites)
    # The tiny autoencoder's latents are far below the distance of .85: all is one.
    flat = replace(scene.content, trajectory=replace(scene.content.trajectory, below=torch.zeros(1, 4, 8, 8)))
    found = matched(replace(scene, content=flat), 6, "none", released=True)
    assert len(found.styles) == 1 and float(found.masks[scene.latent].min()) == 1


def test_a_missing_dinov2_is_said_loudly(tiny_backbone, job, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    notes = run(job, tiny_backbone, StyleGallery(steps=1, auto=True, released=True)).result.notes
    assert any("no DINOv2" in note and "hf download facebook/dinov2-base" in note for note in notes)
    assert StyleGallery(auto=True).model_notes("model", True), "without the switch as well"
    assert not StyleGallery().model_notes("model", True), "nothing is matched"
    assert not StyleGallery(auto=True, semantic="none").model_notes("model", True), "nobody asked for it"
    place = tmp_path / "models--facebook--dinov2-base"
    (place / "snapshots" / "1").mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("1")
    (place / "snapshots" / "1" / "config.json").write_text("{}")
    assert not StyleGallery(auto=True).model_notes("model", True)


# ------------------------------------------------------------ joining regions


def test_a_released_method_is_joined_by_opencvs_plain_clone(tiny_backbone, job):
    from mast.methods.compositing import composite
    from mast.pipeline.compose import recomposite

    pytest.importorskip("cv2")
    ours, theirs = (
        run(job, tiny_backbone, StyleID(released=on), composite="poisson").result for on in (False, True)
    )
    for result, released in ((ours, False), (theirs, True)):
        pictures = [np.asarray(part) for part in result.parts]
        expected = composite(pictures, result.inputs.masks.numpy(), "poisson", released)
        assert np.array_equal(np.asarray(result.image), expected)
        again = recomposite(recomposite(result, "hard"), "poisson")
        assert np.array_equal(np.asarray(again.image), expected)
    parts, masks = [np.asarray(part) for part in theirs.parts], theirs.inputs.masks.numpy()
    assert not np.array_equal(composite(parts, masks, "poisson"), composite(parts, masks, "poisson", True))
