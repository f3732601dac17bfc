"""prepare.py reads a job's masks: sizes matched, overlap divided, the left-over region filled in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from mast.job import InputError, Job, Region
from mast.regions.masks import match_size, read_masks

SIZE = (96, 64)


def box(left: int, top: int, right: int, bottom: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    mask = np.zeros((size[1], size[0]), np.float32)
    mask[top:bottom, left:right] = 1
    return mask


def job(*masks: object) -> Job:
    return Job("photo.png", tuple(Region("style.png", mask) for mask in masks))  # type: ignore[arg-type]


def test_masks_come_in_the_order_of_their_regions_and_the_rest_is_what_is_left():
    notes: list[str] = []
    left, corner = box(0, 0, 48, 64), box(60, 0, 96, 20)
    masks = read_masks(job(left, None, corner), SIZE, notes)
    assert masks.shape == (3, 64, 96) and not notes
    assert torch.equal(masks[0], torch.from_numpy(left)) and torch.equal(masks[2], torch.from_numpy(corner))
    assert torch.equal(masks.sum(0), torch.ones(64, 96))


def test_without_masks_the_one_region_is_everything_and_without_regions_there_is_nothing():
    assert read_masks(job(None), SIZE, []).eq(1).all()
    assert read_masks(job(), SIZE, []).shape == (0, 64, 96)


def test_overlap_is_divided_and_noted_with_its_share():
    notes: list[str] = []
    masks = read_masks(job(box(0, 0, 72, 64), box(48, 0, 96, 64)), SIZE, notes)
    assert notes == ["masks overlap on 25.0% of the photo; there each counts by its share"]
    assert masks[:, :, 48:72].eq(0.5).all() and masks.sum(0).eq(1).all()


def test_soft_borders_that_meet_are_no_overlap():
    notes: list[str] = []
    ramp = np.tile(np.linspace(0, 1, 96, dtype=np.float32), (64, 1))
    read_masks(job(ramp, 1 - ramp), SIZE, notes)
    assert not notes


def test_a_smaller_or_larger_mask_of_the_same_shape_is_resized(tmp_path):
    for factor in (0.5, 2):
        size = (int(96 * factor), int(64 * factor))
        Image.fromarray((box(0, 0, size[0] // 2, size[1], size) * 255).astype(np.uint8)).save(
            tmp_path / "m.png"
        )
        mask = read_masks(job(tmp_path / "m.png"), SIZE, [])[0]
        assert mask.shape == (64, 96)
        assert mask[:, :46].eq(1).all() and mask[:, 50:].eq(0).all()


def test_an_aspect_off_by_rounding_is_accepted_and_a_real_one_refused():
    assert match_size(np.ones((33, 50), np.float32), (96, 64), "m", "the photo").shape == (64, 96)
    with pytest.raises(
        InputError, match="m: the mask is 64x96, the photo 96x64: another shape; make the mask"
    ):
        match_size(np.ones((96, 64), np.float32), (96, 64), "m", "the photo")


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        ((np.zeros((64, 96), np.float32),), r"region 1 \(its mask\): the mask is empty"),
        ((box(0, 0, 9, 9), np.full((64, 96), np.nan, np.float32)), "mask of region 2: .*not numbers"),
        ((np.full((64, 96), 255, np.float32),), "mask of region 1: .*from 255 to 255; scale them"),
        ((None, box(0, 0, 9, 9), None), "regions 1, 3 have no mask; only one"),
        ((box(0, 0, 96, 64), None), "region 2 has no mask, and the other masks leave nothing over"),
    ],
)
def test_masks_that_cannot_be_used(masks: tuple[object, ...], says: str):
    with pytest.raises(InputError, match=says):
        read_masks(job(*masks), SIZE, [])
