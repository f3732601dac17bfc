"""Masks: exact area averages, no overlap, and errors that name the region."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core.masks import area_resample, check_survival, overlap_matrix, separate, verify
from mast.job import InputError

sizes = st.integers(1, 17)


def random_masks(seed: int, n: int, h: int, w: int) -> torch.Tensor:
    return torch.rand(n, h, w, generator=torch.Generator().manual_seed(seed))


def brute_force(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Every pixel cut into equal crumbs that fit both grids, then plain block means."""
    fine = np.kron(mask, np.ones(size))
    return fine.reshape(size[0], mask.shape[0], size[1], mask.shape[1]).mean((1, 3))


@given(h=sizes, w=sizes, th=sizes, tw=sizes, seed=st.integers(0, 10**6))
def test_area_average_is_exact_for_any_two_sizes(h, w, th, tw, seed):
    masks = random_masks(seed, 2, h, w)
    found = area_resample(masks, (th, tw))
    assert found.shape == (2, th, tw)
    for mask, result in zip(masks, found, strict=True):
        np.testing.assert_allclose(result, brute_force(mask.double().numpy(), (th, tw)), atol=2e-6)


@given(h=sizes, w=sizes, th=sizes, tw=sizes, seed=st.integers(0, 10**6))
def test_the_covered_share_of_the_picture_is_kept(h, w, th, tw, seed):
    masks = random_masks(seed, 1, h, w)
    assert float(area_resample(masks, (th, tw)).mean()) == pytest.approx(float(masks.mean()), abs=2e-6)


@given(h=st.integers(1, 6), w=st.integers(1, 6), fy=st.integers(1, 5), fx=st.integers(1, 5))
def test_whole_factors_give_block_means(h, w, fy, fx):
    masks = random_masks(0, 1, h * fy, w * fx)
    blocks = masks.view(1, h, fy, w, fx).mean((2, 4))
    torch.testing.assert_close(area_resample(masks, (h, w)), blocks, atol=1e-6, rtol=1e-6)


@given(source=st.integers(1, 600), target=st.integers(1, 70))
def test_every_cell_shares_itself_out_completely(source, target):
    torch.testing.assert_close(
        overlap_matrix(source, target).sum(1), torch.ones(target), atol=1e-5, rtol=1e-5
    )


def test_the_same_size_changes_nothing_and_no_mask_stays_no_mask():
    masks = random_masks(0, 3, 5, 7)
    assert torch.equal(area_resample(masks, (5, 7)), masks)
    assert area_resample(torch.zeros(0, 5, 7), (2, 2)).shape == (0, 2, 2)


@given(n=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_separated_masks_never_sum_above_one_and_keep_their_proportions(n, seed):
    masks = random_masks(seed, n, 4, 4)
    separated, share = separate(masks)
    total = masks.sum(0)
    assert float(separated.sum(0).max()) <= 1 + 1e-6
    torch.testing.assert_close(separated * total.clamp_min(1), masks)
    assert torch.equal(separated[:, total <= 1], masks[:, total <= 1])
    assert share == pytest.approx(float((total > 1 + 1 / 255 + 1e-6).float().mean()))


def test_overlap_is_counted_and_rounding_is_not():
    masks = torch.zeros(2, 2, 2)
    masks[0] = 1
    masks[1, 0, 0] = 1
    assert separate(masks)[1] == 0.25
    rounded = torch.stack([torch.full((2, 2), 128 / 255), torch.full((2, 2), 128 / 255)])
    separated, share = separate(rounded)
    assert share == 0 and float(separated.sum(0).max()) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("value", "says"),
    [(float("nan"), "not numbers"), (float("inf"), "not numbers"), (1.5, "1.5"), (-0.25, "-0.25")],
)
def test_a_bad_value_names_the_region_and_what_is_wrong(value, says):
    masks = torch.full((2, 3, 3), 0.5)
    masks[1, 1, 1] = value
    with pytest.raises(InputError, match=says) as error:
        verify(masks, ["region 1 (sky.png)", "region 2 (sea.png)"])
    assert "region 2 (sea.png)" in str(error.value)


def test_an_empty_mask_names_the_region():
    with pytest.raises(InputError, match=r"region 1 \(sky\.png\).*empty"):
        verify(torch.zeros(1, 3, 3), ["region 1 (sky.png)"])


def test_good_masks_and_no_masks_pass():
    verify(torch.rand(3, 4, 4), ["a", "b", "c"])
    verify(torch.zeros(0, 4, 4), [])


def test_a_region_that_vanishes_is_named_with_its_size_and_the_grid():
    full = torch.zeros(2, 64, 64)
    full[0, :32] = 1
    full[1, 3:5, 3:5] = 1
    names, areas = ["region 1 (sky.png)", "region 2 (dot.png)"], [2048.0, 4.0]
    with pytest.raises(InputError, match=r"region 2 \(dot\.png\).* 4 p.*8x8"):
        check_survival(area_resample(full, (8, 8)), (8, 8), names, areas)
    check_survival(area_resample(full, (32, 32)), (32, 32), names, areas)


def test_a_faint_mask_over_everything_has_not_vanished():
    faint = torch.full((1, 8, 8), 0.08)
    check_survival(faint, (8, 8), ["haze"], [0.08 * 512 * 512])
    dot = torch.zeros(1, 8, 8)
    dot[0, 0, 0] = 0.08
    with pytest.raises(InputError, match="haze"):
        check_survival(dot, (8, 8), ["haze"], [20])
