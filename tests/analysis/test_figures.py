"""The picture figures as plans, and the maps: what is run, cropped and shown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.analysis import figures
from mast.analysis.maps import Maps, spread, table
from mast.analysis.observe import observe
from mast.job import InputError, Job, Region, Result, Settings
from mast.methods import Mast, SharedAttention
from tests.tiny import halves, picture

SETTINGS = Settings(steps=3, size=64, cache=False)


@pytest.fixture
def trio() -> Job:
    """A quarter, another quarter, and what is left over."""
    first, second = np.zeros((64, 96), np.float32), np.zeros((64, 96), np.float32)
    first[:, :24], second[:, 72:] = 1, 1
    a, b, c = (picture(64, 64, seed) for seed in (2, 3, 4))
    return Job(picture(96, 64, 1), (Region(a, first), Region(b), Region(c, second)))


def test_styles_are_added_under_masks_that_stay(trio):
    plan = figures.progressive([("x", trio)], Mast(), SETTINGS)
    assert [len(run.job.regions) for run in plan.runs] == [1, 2, 3]
    full = plan.runs[-1].job.regions
    for run in plan.runs:
        for region, same in zip(run.job.regions, full, strict=False):
            assert region.style is same.style and np.array_equal(region.mask, same.mask)
    assert np.array_equal(sum(region.mask for region in full), np.ones((64, 96)))
    assert float(full[1].mask.mean()) == 0.5  # the left-over region did not grow into the third


def test_backgrounds_take_the_place_of_what_is_left_over(trio, tmp_path):
    names = []
    for i in range(2):
        names.append(str(tmp_path / f"b{i}.png"))
        picture(64, 64, 7 + i).save(names[-1])
    plan = figures.backgrounds(trio, names, Mast(), SETTINGS)
    assert [run.job.regions[1].style for run in plan.runs] == names
    assert all(run.job.regions[0] is trio.regions[0] for run in plan.runs)
    covered = Job(trio.content, trio.regions[:1])
    assert [len(run.job.regions) for run in figures.backgrounds(covered, names, Mast(), SETTINGS).runs] == [
        2,
        2,
    ]
    with pytest.raises(InputError, match="no background given"):
        figures.backgrounds(trio, [], Mast(), SETTINGS)
    with pytest.raises(InputError, match="foreground"):
        figures.backgrounds(Job(trio.content, (Region(names[0]),)), names, Mast(), SETTINGS)


@given(
    st.tuples(st.integers(64, 900), st.integers(64, 900)),
    st.sampled_from(["1:1", "4:3", "16:9", "9:16", "1:4"]),
    st.tuples(st.floats(0, 900), st.floats(0, 900)),
)
def test_crops_lie_inside_and_have_their_shape(size, aspect, centre):
    left, top, right, bottom = figures.crop_box(size, figures.parse_aspect(aspect), centre)
    assert 0 <= left < right <= size[0] and 0 <= top < bottom <= size[1]
    wanted = figures.parse_aspect(aspect)
    assert right - left == size[0] or bottom - top == size[1]
    assert abs((right - left) - (bottom - top) * wanted) <= 1 + wanted


def test_aspects_are_read_or_refused():
    assert figures.parse_aspect("16:9") == Fraction(16, 9)
    for bad in ("16x9", "0:1", "1", "a:b", "9:1"):
        with pytest.raises(InputError, match="--aspects"):
            figures.parse_aspect(bad)


def test_masks_are_cropped_like_the_photo():
    photo = Image.fromarray(np.arange(96, dtype=np.uint8).repeat(64).reshape(96, 64).T.copy()).resize(
        (192, 128)
    )
    bright = (np.asarray(photo, np.float32) > 60).astype(np.float32)
    job = Job(photo.convert("RGB"), (Region(picture(64, 64, 2), bright), Region(picture(64, 64, 3))))
    plan = figures.sizes(job, ["1:1", "4:3"], [128, 256], Mast(), SETTINGS)
    assert [run.settings.size for run in plan.runs] == [128, 256] * 2
    assert [run.job.content.size for run in plan.runs] == [(128, 128), (256, 256), (128, 96), (256, 192)]
    for run in plan.runs:
        grey = np.asarray(run.job.content.convert("L"), np.float32)
        mask = run.job.regions[0].mask
        assert mask.shape == grey.shape
        assert ((grey > 60) == (mask > 0.5)).mean() > 0.97


def test_a_region_outside_a_crop_is_left_out_and_named():
    left, _ = halves(512, 128)
    far = np.zeros_like(left)
    far[:, 480:] = 1
    job = Job(picture(512, 128, 1), (Region(picture(64, 64, 2), left), Region(picture(64, 64, 3), far)))
    plan = figures.sizes(job, ["1:1"], [64], Mast(), SETTINGS)
    assert len(plan.runs[0].job.regions) == 1 and plan.notes == ["1:1: region 2 lies outside the crop"]


def test_the_ablation_switches_one_part_on_at_a_time(trio):
    plan = figures.ablation([("x", trio)], Mast(lam=0.3), SETTINGS)
    methods = [run.method for run in plan.runs]
    assert isinstance(methods[0], SharedAttention) and {method.lam for method in methods} == {0.3}
    assert [(m.lama, m.sts, m.ddi) for m in methods] == [
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (True, True, True),
    ]


def test_results_take_their_place_on_the_sheet(trio):
    plan = figures.ablation([("x", trio)], Mast(), SETTINGS)
    seen = []

    def run(index, what):
        seen.append((index, what.caption))
        return Result(Image.new("RGB", (96, 64), (40 * index, 0, 0)), {}, {})

    image, results = plan.paint(run, 64)
    assert [index for index, _ in seen] == [0, 1, 2, 3] and len(results) == 4
    pixels = np.asarray(image)
    for index in range(4):
        assert (pixels == (40 * index, 0, 0)).all(-1).sum() > 3000


def test_maps_show_lama_where_its_masks_are(tiny_backbone, job):
    found = Maps({0, 5}, {1})
    (result,) = observe([job], tiny_backbone, SETTINGS, Mast(), found)
    assert set(found.maps) == {(stage, site, 1) for stage in ("shared", "lama", "sts") for site in (0, 5)}
    for (stage, site, _), maps in found.maps.items():
        assert np.allclose(maps.sum(0), 1, atol=1e-5)
        if stage == "lama":
            assert np.allclose(maps, found.targets[site], atol=1e-5)
    rows = found.rows(["a", "b", "content"], tiny_backbone.sites)
    assert len(rows) == 3 * 3 * 2
    lama = [row for row in rows if row["stage"] == "lama" and row["partition"] == "a"]
    assert all(row["inside"] == pytest.approx(0.9, abs=1e-5) for row in lama)
    assert all(row["outside"] == pytest.approx(0, abs=1e-5) for row in lama)
    assert all(row["outside"] is None for row in rows if row["partition"] == "content")  # it is everywhere
    assert len(table(rows)) == 9
    drawn = found.sheet(Image.open(job.content), [(picture(64, 64, 2), "a")] * 2, result.image, "maps", 64)
    assert drawn.height > 9 * 64 and drawn.width > 3 * 64


@given(st.integers(1, 200), st.integers(1, 20))
def test_a_spread_goes_from_the_first_to_the_last(count: int, shown: int):
    found = spread(count, shown)
    assert found == sorted(set(found)) and found[0] == 0 and len(found) == min(count, shown)
    assert found[-1] == count - 1 or shown == 1
