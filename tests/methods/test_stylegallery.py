"""StyleGallery: a loss that knows regions, an optimisation that lowers it, regions found by themselves."""

import random

import pytest
import torch

from mast import InputError, Job, Region
from mast.methods import StyleGallery, matching, semantics
from mast.methods.matching import cluster, k_means, matched, overlap, silhouette
from tests.methods.scenes import scene_of, whole
from tests.tiny import picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")
T = 500


def clean(scene) -> torch.Tensor:
    return scene.content.trajectory.latents[:1].clone()


def gradient(method: StyleGallery, scene, latent: torch.Tensor) -> tuple[float, torch.Tensor]:
    latent = latent.clone().requires_grad_()
    loss = method.loss(scene, latent, T)
    loss.backward()
    return float(loss.detach()), latent.grad


# ------------------------------------------------------------ the loss


def test_a_photo_that_is_its_own_style_has_nothing_to_learn(tiny_backbone):
    photo, mask = picture(64, 64, 1), picture(64, 64, 5).convert("L")  # soft, and it covers not all
    scene = scene_of(Job(photo, (Region(photo, mask),)), tiny_backbone)
    loss, _ = gradient(StyleGallery(temperature=1.0), scene, clean(scene))
    assert loss < 1e-5
    assert gradient(StyleGallery(temperature=1.5), scene, clean(scene))[0] > 1e-3
    assert gradient(StyleGallery(temperature=1.0), scene, clean(scene) + 0.3)[0] > 1e-3


def test_the_loss_is_the_papers_written_out(tiny_backbone, job):
    from mast.backbone.instrument import Identity, controlled

    scene, method = scene_of(job, tiny_backbone), StyleGallery()

    class Watch(Identity):
        def __init__(self):
            self.seen = []

        def attend(self, site, query, key, value):
            output = super().attend(site, query, key, value)
            self.seen.append((site, query[0], key[0], value[0], output[0]))
            return output

    def look(latent):
        watch = Watch()
        with torch.no_grad(), controlled(tiny_backbone.unet, tiny_backbone.sites, watch):
            tiny_backbone.predict(latent, T)
        return watch.seen

    latent = clean(scene) + 0.1
    own, photo = look(latent), look(clean(scene))
    styles = [look(style.trajectory.latents[:1].clone()) for style in scene.styles]
    expected = 0.0
    for index, (site, query, _, _, output) in enumerate(own):
        expected += 0.26 * float((query - photo[index][1]).abs().mean())
        for mask, style in zip(scene.masks_at(site), styles, strict=True):
            _, _, key, value, _ = style[index]
            logits = 1.5 * query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
            expected += float((mask[:, None] * (output - logits.softmax(-1) @ value)).abs().mean())
    assert float(method.loss(scene, latent, T)) == pytest.approx(expected, rel=1e-4)


def test_the_order_of_the_styles_is_irrelevant(tiny_backbone, job):
    forth, back = scene_of(job, tiny_backbone), scene_of(Job(job.content, job.regions[::-1]), tiny_backbone)
    method = StyleGallery()
    (loss, slope), (again, other) = (gradient(method, scene, clean(scene)) for scene in (forth, back))
    assert loss == pytest.approx(again, rel=1e-5)
    torch.testing.assert_close(slope, other, atol=1e-6, rtol=1e-3)
    assert float(slope.abs().max()) > 1e-4


def test_a_region_is_only_drawn_to_its_own_style(tiny_backbone, pictures):
    left = {"mask": pictures["left"]}
    one = scene_of(Job(pictures["photo"], (Region(pictures["style_a"], **left),)), tiny_backbone)
    other = scene_of(Job(pictures["photo"], (Region(pictures["style_b"], **left),)), tiny_backbone)
    method, site = StyleGallery(content_weight=0.0), tiny_backbone.sites[-1]
    out = query = torch.randn(site.heads, 64, 8, generator=torch.Generator().manual_seed(0))
    key, value = torch.randn(2, site.heads, 10, 8, generator=torch.Generator().manual_seed(1))
    mask = one.masks_at(site)[0]
    out = out.clone().requires_grad_()
    method.style_term(out, query, key, value, mask, 1.5).backward()
    assert torch.equal((out.grad.abs().sum((0, 2)) > 0), mask > 0) and 0 < float(mask.mean()) < 1
    assert gradient(method, one, clean(one))[0] != gradient(method, other, clean(other))[0]


# ------------------------------------------------------------ the optimisation


def test_no_steps_give_the_start_whose_cells_have_lost_their_colours(tiny_backbone, job):
    scene = scene_of(job, tiny_backbone)
    start = StyleGallery(steps=0).sample(scene)
    assert torch.equal(start, StyleGallery().start(scene))
    torch.testing.assert_close(start.mean(1), torch.zeros(1, 8, 8), atol=1e-6, rtol=0)
    torch.testing.assert_close(start.std(1), torch.ones(1, 8, 8), atol=1e-5, rtol=0)


def test_the_loss_falls(tiny_backbone, job):
    """At single timesteps a random network's loss wanders by .5 %; their sum falls."""
    scene, method = scene_of(job, tiny_backbone), StyleGallery(steps=12)
    with torch.no_grad():
        before, after = (
            sum(float(method.loss(scene, z, t)) for t in (100, 300, 500, 900))
            for z in (method.start(scene), method.sample(scene))
        )
    assert after < 0.994 * before


def test_every_step_is_reported_and_two_runs_have_the_same_bits(tiny_backbone, job):
    found = run(job, tiny_backbone, StyleGallery(steps=3))
    reports = [report for report in found.progress if report.stage == "denoise"]
    assert [(report.done, report.total) for report in reports] == [(i, 3) for i in range(1, 4)]
    times = [report.t for report in reports]
    assert times == sorted(times, reverse=True) and len(set(times)) == 3
    with torch.inference_mode():  # whatever mode the caller is in
        assert run(job, tiny_backbone, StyleGallery(steps=3)).same_bits(found)
    assert not found.latent.requires_grad and found.result.image.size == (64, 64)


def test_a_step_can_end_the_run_or_change_its_latent(tiny_backbone, job):
    scene, method = scene_of(job, tiny_backbone), StyleGallery(steps=3)

    def cancel(step, latent, x0):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.sample(scene, cancel)
    assert all("AttnProcessor" in type(p).__name__ for p in tiny_backbone.unet.attn_processors.values())
    assert float(method.sample(scene, lambda step, z, x0: torch.full_like(z, 7.0)).mean()) == 7.0


def test_photos_and_styles_of_any_shape(tiny_backbone):
    job = Job(picture(96, 64, 1), (Region(picture(64, 128, 2)),))
    found = run(job, tiny_backbone, StyleGallery(steps=2), size=96)
    assert found.result.image.size == (96, 64) and torch.isfinite(found.latent).all()


@pytest.mark.parametrize(
    "options",
    [
        *[{"steps": value} for value in (-1, 1001, 2.5, True)],
        *[{"rate": value} for value in (0, 1.5, float("nan"))],
        *[{"content_weight": value} for value in (-1, 101, float("nan"))],
        {"temperature": 0.0},
        *[{"clusters": value} for value in (1, 51, 3.0)],
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        StyleGallery(**options)


# ------------------------------------------------------------ regions found by themselves


def blobs(count: int, each: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    centres = 8 * torch.randn(count, 12, generator=generator)
    points = centres.repeat_interleave(each, 0) + torch.randn(count * each, 12, generator=generator)
    return points, torch.arange(count).repeat_interleave(each)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_clusters_that_are_there_are_found(count):
    points, truth = blobs(count)
    found = cluster(points)
    assert len(found.unique()) == count and torch.equal(found, cluster(points))
    assert len(torch.stack([found, truth]).unique(dim=1)[0]) == count
    assert silhouette(points, truth) > 0.5 > 0.1 > silhouette(points, torch.arange(len(points)) % count)


def test_a_crumb_is_no_cluster():
    points, _ = blobs(2, 150)
    points[0] = 500.0
    found = cluster(points)
    assert int(torch.bincount(found).min()) >= 0.01 * len(points)
    assert sorted(k_means(points, 3).unique().tolist()) == [0, 1, 2]


def test_the_overlap_of_circles_is_measured_right():
    draw = random.Random(0)
    for distance, one, other in ((0.3, 0.5, 0.4), (0.1, 0.9, 0.3), (0.7, 0.5, 0.4), (0.25, 0.3, 0.5)):
        both = either = 0
        for _ in range(20000):
            x, y = draw.uniform(-1, 2), draw.uniform(-1, 1)
            first, second = x * x + y * y < one**2, (x - distance) ** 2 + y * y < other**2
            both, either = both + (first and second), either + (first or second)
        assert overlap(distance, one, other) == pytest.approx(both / either, abs=0.03)
        assert overlap(distance, one, other) == pytest.approx(overlap(distance, other, one))
    assert overlap(0.0, 0.4, 0.4) == 1 and overlap(1.0, 0.5, 0.4) == 0 and overlap(0.5, 0.0, 0.4) == 0


def test_every_part_of_the_photo_finds_itself_among_the_styles(tiny_backbone):
    photo = picture(64, 64, 1)
    everywhere = torch.ones(64, 64).numpy() / 2
    job = Job(photo, (Region(picture(128, 64, 3), everywhere), Region(photo, everywhere)))
    scene = scene_of(job, tiny_backbone, size=128)
    found = matched(scene, 6, "none")
    for grid, masks in found.masks.items():
        assert tuple(masks.shape[1:]) == grid and len(masks) == len(found.styles) >= 2
        torch.testing.assert_close(masks.sum(0), torch.ones(grid))
    for mask, style in zip(found.masks[scene.latent], found.styles, strict=True):
        assert style.trajectory is scene.styles[1].trajectory
        assert torch.equal(style.keep[scene.latent], mask.flatten().nonzero().squeeze(1))
        assert all(len(kept) for kept in style.keep.values())
    again = matched(scene, 6, "none")
    assert all(torch.equal(again.masks[grid], masks) for grid, masks in found.masks.items())


def test_a_style_mask_limits_what_may_be_matched(tiny_backbone):
    mask = torch.zeros(64, 64)
    mask[:, :32] = 1
    found = matched(scene_of(whole(style_mask=mask.numpy()), tiny_backbone), 4, "none")
    for style in found.styles:
        assert all(int(kept.remainder(grid[1]).max()) < grid[1] // 2 for grid, kept in style.keep.items())


def test_auto_needs_no_masks_and_ignores_those_it_is_given(tiny_backbone, job, pictures):
    method = StyleGallery(steps=2, auto=True, semantic="none")
    found = run(job, tiny_backbone, method)
    bare = Job(job.content, tuple(Region(region.style) for region in job.regions))
    assert run(bare, tiny_backbone, method).same_bits(found)
    assert not run(job, tiny_backbone, StyleGallery(steps=2)).same_bits(found)


def test_a_semantic_model_takes_part_where_it_is_installed(tiny_backbone, tmp_path):
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
    )
    Dinov2Model(config).save_pretrained(tmp_path / "dino")
    scene = scene_of(whole(3, 128, 64), tiny_backbone, size=128)
    latents = [scene.content.trajectory.latents[:1], scene.styles[0].trajectory.latents[:1]]
    found = semantics.semantic_features(tiny_backbone, latents, str(tmp_path / "dino"))
    assert [tuple(one.shape) for one in found] == [(16, 37, 37), (16, 18, 37)]
    assert semantics.semantic_features(tiny_backbone, latents, "none") == [None, None]
    parts = matching.matched(scene, 4, str(tmp_path / "dino"))
    assert len(parts.styles) >= 2
    with pytest.raises(InputError, match="no DINOv2 model"):
        matching.matched(scene, 4, str(tmp_path / "nothing"))
