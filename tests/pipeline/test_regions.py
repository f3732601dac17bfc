"""Regions of every kind: many, soft, overlapping, partial, faint; pictures of any size and shape."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from mast import InputError, Job, Mast, Region, Settings
from mast.pipeline import engine_of, read_job, ready_to_paint
from tests.tiny import halves, picture, run

pytestmark = pytest.mark.usefixtures("warm_cache")


def prepare(job, backbone, settings, method=None):
    """All that is made of a job before the first pass."""
    method = method or Mast()
    return ready_to_paint(read_job(job, method), engine_of(method, backbone), settings)


def tiles(count: int, size: int = 128) -> list[np.ndarray]:
    """A square cut into count columns by rows; what does not fit the last row is left over."""
    side = int(np.ceil(np.sqrt(count)))
    masks = []
    for i in range(count):
        mask = np.zeros((size, size), np.float32)
        y, x = divmod(i, side)
        step = size // side
        mask[y * step : (y + 1) * step, x * step : (x + 1) * step] = 1
        masks.append(mask)
    return masks


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_one_to_sixteen_regions_run(tiny_backbone, count):
    styles = [picture(64, 64, 2), picture(64, 64, 3)]
    regions = tuple(Region(styles[i % 2], mask) for i, mask in enumerate(tiles(count)))
    done = run(Job(picture(128, 128, 1), regions), tiny_backbone, size=128, steps=2)
    assert done.result.image.size == (128, 128) and done.latent.isfinite().all()
    assert len(done.result.provenance["regions"]) == count


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("size", [(67, 45), (100, 31), (33, 130), (64, 64), (255, 254)])
def test_any_photo_comes_back_at_its_own_size(tiny_backbone, fit, size):
    job = Job(picture(*size, 1), (Region(picture(64, 64, 2), halves(*size)[0]),))
    done = run(job, tiny_backbone, fit=fit, steps=2)
    assert done.result.image.size == size
    assert done.result.provenance["size"] == list(size)


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_no_region_at_all_runs_at_any_size(tiny_backbone, fit):
    assert run(Job(picture(67, 45)), tiny_backbone, fit=fit, steps=2).result.image.size == (67, 45)


@pytest.mark.parametrize("size", [(128, 64), (30, 90), (201, 50)])
def test_a_style_may_have_another_size_and_shape(tiny_backbone, size):
    job = Job(picture(64, 64, 1), (Region(picture(*size, 2), halves(64, 64)[0]),))
    ready = prepare(job, tiny_backbone, Settings(steps=2, size=128))
    assert ready.image.shape[-2:] == (128, 128) and ready.styles[0].size != (128, 128)
    assert run(job, tiny_backbone, steps=2, size=128).latent.shape == (1, 4, 16, 16)


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("size", [(67, 45), (128, 96)])
def test_masks_go_through_the_same_resize_and_padding_as_the_photo(tiny_backbone, fit, size):
    """A photo that *is* its mask, averaged over the cells of each grid, gives the mask of that grid."""
    mask = halves(*size)[0]
    photo = np.repeat((mask * 255).astype(np.uint8)[..., None], 3, -1)
    ready = prepare(Job(photo, (Region(photo, mask),)), tiny_backbone, Settings(steps=2, size=128, fit=fit))
    seen = (ready.image[0, 0] + 1) / 2
    for stride in (8, 16):
        h, w = seen.shape[0] // stride, seen.shape[1] // stride
        found = ready.masks_on((h, w))
        cells = seen.reshape(h, seen.shape[0] // h, w, seen.shape[1] // w).mean((1, 3))
        assert float((cells - found[0]).abs().max()) < 0.1
        assert float((cells - found[0]).abs().mean()) < 0.02


def test_a_region_without_a_mask_takes_what_is_left(tiny_backbone):
    left, right = halves(64, 64)
    styles = picture(64, 64, 2), picture(64, 64, 3)
    named = Job(picture(64, 64, 1), (Region(styles[0], left), Region(styles[1], right)))
    rest = replace(named, regions=(named.regions[0], Region(styles[1])))
    assert run(rest, tiny_backbone).same_bits(run(named, tiny_backbone))


def test_strength_is_a_paler_mask(tiny_backbone):
    style, whole = picture(64, 64, 2), np.ones((64, 64), np.float32)
    strong = Job(picture(64, 64, 1), (Region(style, whole, strength=0.5),))
    pale = Job(picture(64, 64, 1), (Region(style, whole / 2),))
    full = Job(picture(64, 64, 1), (Region(style, whole),))
    assert run(strong, tiny_backbone).same_bits(run(pale, tiny_backbone))
    assert not run(strong, tiny_backbone).same_bits(run(full, tiny_backbone))


def test_less_strength_stays_nearer_to_the_photo(tiny_backbone):
    style = picture(64, 64, 2)
    plain = run(Job(picture(64, 64, 1)), tiny_backbone, "reconstruct").latent

    def distance(strength: float) -> float:
        job = Job(picture(64, 64, 1), (Region(style, strength=strength),))
        return float((run(job, tiny_backbone, Mast(ddi=False)).latent - plain).pow(2).mean())

    assert distance(0.05) < 0.9 * distance(0.4) < 0.81 * distance(1.0)


@dataclass(frozen=True)
class CountsKeys(Mast):
    seen = []

    def joint(self, scene, site, query):
        self.seen.append((site.grid(scene.latent), [s.key.shape[1] for s in scene.styles_at(site)]))
        return super().joint(scene, site, query)


def test_a_style_mask_keeps_only_its_part_of_the_painting(tiny_backbone):
    style, left = picture(64, 64, 2), halves(64, 64)[0]
    region = Region(style, style_mask=left)
    ready = prepare(Job(picture(64, 64, 1), (region,)), tiny_backbone, Settings(size=64))
    for h, w in ((4, 4), (8, 8)):
        keep = ready.styles[0].keys_on((h, w))
        columns = keep % w
        assert len(keep) == h * w // 2 and int(columns.max()) < w // 2
    assert float(ready.styles[0].mask_on((8, 8)).mean()) == pytest.approx(0.5)
    CountsKeys.seen.clear()
    masked = run(Job(picture(64, 64, 1), (region,)), tiny_backbone, CountsKeys())
    assert set(map(str, CountsKeys.seen)) == {"((4, 4), [8])", "((8, 8), [32])"}
    whole = run(Job(picture(64, 64, 1), (Region(style),)), tiny_backbone)
    assert not masked.same_bits(whole)
    everything = Region(style, style_mask=np.ones((64, 64), np.float32))
    same = run(Job(picture(64, 64, 1), (everything,)), tiny_backbone)
    torch.testing.assert_close(same.latent, whole.latent, atol=1e-4, rtol=1e-4)


def test_overlapping_masks_are_shared_and_said(tiny_backbone):
    mask = np.zeros((64, 64), np.float32)
    mask[:, :48] = 1
    regions = (Region(picture(64, 64, 2), mask), Region(picture(64, 64, 3), mask[:, ::-1].copy()))
    done = run(Job(picture(64, 64, 1), regions), tiny_backbone)
    assert any("masks overlap on 50.0% of the photo" in note for note in done.result.notes)
    ready = prepare(Job(picture(64, 64, 1), regions), tiny_backbone, Settings(size=64))
    assert all(float(ready.masks_on(grid).sum(0).max()) <= 1 + 1e-6 for grid in ((4, 4), (8, 8)))
    assert float(ready.inputs.masks[0, 0, 32]) == 0.5


def test_soft_masks_run_without_a_note(tiny_backbone):
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (64, 1))
    regions = (Region(picture(64, 64, 2), ramp), Region(picture(64, 64, 3), 1 - ramp))
    done = run(Job(picture(64, 64, 1), regions), tiny_backbone, cache=False)
    assert not any("overlap" in note for note in done.result.notes)


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("size", [(64, 64), (90, 67)])
def test_exact_surroundings_are_the_original_pixels_bit_by_bit(tiny_backbone, fit, size):
    photo, mask = picture(*size, 1), halves(*size)[0]
    job = Job(photo, (Region(picture(64, 64, 2), mask),))
    exact = run(job, tiny_backbone, keep_unassigned="exact", fit=fit)
    paper = run(job, tiny_backbone, fit=fit)
    original, outside = np.asarray(photo), mask == 0
    assert np.array_equal(exact.pixels[outside], original[outside])
    assert not np.array_equal(paper.pixels[outside], original[outside])
    deep = np.zeros_like(outside)
    deep[:, : size[0] // 4] = True
    assert np.array_equal(exact.pixels[deep], paper.pixels[deep]), "well inside, nothing of the photo is left"


def test_a_region_that_vanishes_is_refused_before_any_work(tiny_backbone):
    dot = np.zeros((256, 256), np.float32)
    dot[10:14, 10:14] = 1
    told = []
    with pytest.raises(InputError, match=r"region 2 .* 16 p.* 4x4 grid"):
        run(
            Job(picture(256, 256), (Region(picture(64, 64, 2), 1 - dot), Region(picture(64, 64, 3), dot))),
            tiny_backbone,
            callback_on_step_end=lambda *_: told.append(1),
        )
    assert not told


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        ([np.zeros((64, 64), np.float32)], r"region 1 .*empty"),
        ([None, None], "regions 1, 2 have no mask"),
        ([np.ones((64, 64), np.float32), None], "region 2 has no mask.*nothing over"),
        ([np.ones((64, 32), np.float32)], r"region 1 .*32x64.*64x64"),
        ([np.full((64, 64), np.nan, np.float32)], r"region 1\b.*not numbers"),
        ([np.full((64, 64), 255, np.float32)], r"region 1\b.*255"),
        ([np.full((128, 128), 255, np.float32)], r"region 1\b.*255"),
        ([np.full((128, 128), np.nan, np.float32)], r"region 1\b.*not numbers"),
    ],
)
def test_masks_that_cannot_be_used_name_their_region(tiny_backbone, masks, says):
    regions = tuple(Region(picture(64, 64, 2), mask) for mask in masks)
    with pytest.raises(InputError, match=says):
        prepare(Job(picture(64, 64), regions), tiny_backbone, Settings(size=64))


def test_a_style_mask_that_keeps_nothing_is_refused(tiny_backbone):
    dot = np.zeros((64, 64), np.float32)
    dot[0, 0] = 1
    with pytest.raises(InputError, match=r"style mask of region 1 .*no whole cell"):
        prepare(
            Job(picture(64, 64), (Region(picture(64, 64), style_mask=dot),)), tiny_backbone, Settings(size=64)
        )
