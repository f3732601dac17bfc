"""CoCoDiff: correspondences found and used, StyleID without them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError, Job, Region
from mast.backbone.taps import block_features
from mast.methods import CoCoDiff, StyleID, correspondence
from mast.methods.cocodiff import Partners, feature_block, matched_step
from mast.methods.correspondence import best_matches, nearest_step, same_place
from mast.methods.method import Reference
from tests.methods.scenes import scene_of, whole
from tests.tiny import picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")


def features(seed: int, h: int, w: int, channels: int = 5) -> torch.Tensor:
    return torch.randn(channels, h, w, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------ correspondences


@given(st.integers(0, 50), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_the_best_match_is_the_one_with_the_largest_cosine(seed, h, w, rows, columns):
    one, other = features(seed, h, w), features(seed + 100, rows, columns)
    found = best_matches(one, other)
    table = torch.nn.functional.cosine_similarity(one.flatten(1).T[:, None], other.flatten(1).T[None], dim=-1)
    torch.testing.assert_close(found.cosine, table.amax(1))
    torch.testing.assert_close(table.gather(1, found.index[:, None])[:, 0], table.amax(1))


def test_matches_do_not_depend_on_how_the_table_is_cut(monkeypatch):
    one, other = features(1, 7, 5), features(2, 4, 9)
    found = best_matches(one, other)
    monkeypatch.setattr(correspondence, "CHUNK_BYTES", 4 * 36 * 2)
    again = best_matches(one, other)
    assert torch.equal(again.index, found.index)
    torch.testing.assert_close(again.cosine, found.cosine)


def test_a_picture_matches_itself_and_only_where_it_may():
    one = features(1, 4, 4)
    found = best_matches(one, one)
    assert torch.equal(found.index, torch.arange(16))
    torch.testing.assert_close(found.cosine, torch.ones(16))
    some = torch.tensor([3, 8, 9])
    assert torch.equal(best_matches(one, one, some).index[some], torch.arange(3))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_places_keep_their_share_of_the_picture(h, w, rows, columns):
    found = same_place((h, w), (rows, columns)).view(h, w)
    for y in range(h):
        for x in range(w):
            row, column = divmod(int(found[y, x]), columns)
            assert row <= (y + 0.5) / h * rows < row + 1 and column <= (x + 0.5) / w * columns < column + 1
    assert torch.equal(same_place((h, w), (h, w)), torch.arange(h * w))


@pytest.mark.parametrize("steps", [2, 3, 12, 50, 100])
def test_the_matched_timestep_is_the_nearest_to_261_that_a_run_reaches(tiny_backbone, steps):
    schedule = tiny_backbone.schedule(steps)
    distance = [abs(t - 261) for t in schedule.timesteps]
    assert distance[nearest_step(schedule, 261)] == min(distance)
    assert matched_step(schedule) <= steps - 2
    assert steps != 50 or schedule.timesteps[matched_step(schedule)] == 261


def test_features_come_on_the_grid_of_the_sites_that_use_them(tiny_backbone):
    blocks = sorted({feature_block(site) for site in tiny_backbone.sites})
    found = block_features(tiny_backbone, torch.zeros(1, 4, 8, 16), 261, blocks)
    for site in tiny_backbone.sites:
        assert tuple(found[feature_block(site)].shape[1:]) == site.grid((8, 16))


def test_partners_are_added_by_the_square_of_their_cosine():
    style = features(1, 2, 2, 3)
    content = style.roll(1, 2)  # what the content shows at a place, the style shows one further on
    partners = CoCoDiff()._pair(content, style, Reference(None), (2, 2), 0.4)
    assert partners.index.tolist() == [1, 0, 3, 2]
    torch.testing.assert_close(partners.weight, torch.full((4,), 0.6))
    tokens = torch.randn(8, 4, 6)
    torch.testing.assert_close(partners.join(tokens), tokens + 0.6 * tokens[:, [1, 0, 3, 2]])
    weak = CoCoDiff()._pair(features(3, 2, 2, 300), features(4, 2, 2, 300), Reference(None), (2, 2), 0.4)
    assert float(weak.weight.abs().max()) == 0


def test_a_style_mask_leaves_no_partner_outside():
    style, keep = features(1, 4, 4), torch.tensor([0, 5, 6])
    partners = CoCoDiff()._pair(features(2, 6, 2), style, Reference(None, keep={(4, 4): keep}), (4, 4), 0.0)
    assert partners.index.shape == partners.weight.shape == (3,)
    assert int(partners.index.max()) < 3 and isinstance(partners, Partners)


# ------------------------------------------------------------ runs


def test_without_strength_it_is_styleid_bit_by_bit(tiny_backbone):
    base = run(whole(), tiny_backbone, StyleID())
    assert run(whole(), tiny_backbone, CoCoDiff(strength=0.0)).same_bits(base)
    assert not run(whole(), tiny_backbone, CoCoDiff()).same_bits(base)


def test_the_reversed_run_is_styleid_with_the_roles_exchanged(tiny_backbone):
    scene = scene_of(whole(), tiny_backbone, steps=6)
    found = CoCoDiff()._reversed(scene, None)
    exchanged = Job(picture(64, 64, 2), (Region(picture(64, 64, 1)),))
    expected = run(exchanged, tiny_backbone, StyleID(), steps=6)
    until = matched_step(scene.schedule)
    reports = [report for report in expected.progress if report.stage == "denoise"]
    assert torch.equal(found, reports[-until - 1].latent)
    assert len(reports) == 5 and until == 2


@pytest.mark.parametrize("released", [False, True])
def test_every_step_is_reported_and_any_of_them_can_end_the_run(tiny_backbone, released):
    method = CoCoDiff(released=released)
    found = run(whole(), tiny_backbone, method, steps=6)
    reports = [report for report in found.progress if report.stage == "denoise"]
    assert [report.done for report in reports] == list(range(1, reports[0].total + 1))
    assert reports[0].total == method.reported_steps(tiny_backbone.schedule(6)) > 5
    scene = scene_of(whole(), tiny_backbone, steps=6)

    def cancel(step, latent, x0):
        assert latent.shape == x0.shape == scene.content.trajectory.noise.shape
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.sample(scene, cancel)
    assert all("AttnProcessor" in type(p).__name__ for p in tiny_backbone.unet.attn_processors.values())


def test_styles_of_another_size_with_a_mask_and_replayed_features(tiny_backbone):
    mask = np.zeros((64, 128), np.float32)
    mask[:, :80] = 1
    job = whole(3, 128, 64, style_mask=mask)
    found = run(job, tiny_backbone, CoCoDiff(threshold=0.0), size=128, features="memory")
    assert torch.isfinite(found.latent).all() and found.result.image.size == (64, 64)
    again = run(job, tiny_backbone, CoCoDiff(threshold=0.0), size=128, features="replay", cache=False)
    assert found.same_bits(again)
    assert not found.same_bits(run(job, tiny_backbone, StyleID(), size=128))


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 2.0},
        *[{"strength": value} for value in (-0.1, 11, float("nan"))],
        *[{"threshold": value} for value in (-0.1, 1.1, float("nan"))],
        {"fine_threshold": 2.0},
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        CoCoDiff(**options)
