"""R-FID and M-FID: fractional weights, matched support, and the bias that matching removes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from mast.job import InputError
from mast.metrics import rfid
from mast.metrics.fid import fid, statistics
from mast.metrics.rfid import RegionPair, pool, region_fid, region_pairs, region_weights, support_matched

CELLS, D = 64, 16


def collection(size: int, n: int = 400, seed: int = 0) -> tuple[list[RegionPair], dict[str, torch.Tensor]]:
    """Outputs and styles whose cells all come from one distribution; regions of `size` cells."""
    generator = torch.Generator().manual_seed(seed)
    styles = {f"{i}": torch.randn(CELLS, D, generator=generator) for i in range(n)}
    pairs = []
    for name in styles:
        weights = torch.zeros(1, CELLS)
        weights[0, torch.randperm(CELLS, generator=generator)[:size]] = 1
        pairs += region_pairs(torch.randn(CELLS, D, generator=generator), weights, [name])[0]
    return pairs, styles


def test_weights_are_the_covered_share_of_each_cell() -> None:
    mask = torch.zeros(1, 80, 80)
    mask[0, :15, :25] = 1  # of cells of 10x10: one and a half rows, two and a half columns
    weights = region_weights(mask, (8, 8)).view(8, 8)
    expected = torch.zeros(8, 8)
    expected[0, :3] = torch.tensor([1, 1, 0.5])
    expected[1, :3] = torch.tensor([0.5, 0.5, 0.25])
    torch.testing.assert_close(weights, expected)


def test_area_is_kept_when_cells_do_not_divide_the_picture() -> None:
    mask = (torch.rand(3, 77, 101) > 0.5).float()
    torch.testing.assert_close(
        region_weights(mask, (14, 14)).mean(1), mask.mean((1, 2)), atol=1e-5, rtol=1e-4
    )


def test_pooling_is_the_weighted_mean() -> None:
    features = torch.randn(4, D)
    weights = torch.tensor([1, 0.5, 0.25, 0])
    expected = (features[0] + 0.5 * features[1] + 0.25 * features[2]) / 1.75
    torch.testing.assert_close(pool(features, weights), expected)


def test_a_draw_carries_the_regions_own_weights_on_distinct_cells() -> None:
    weights = torch.zeros(CELLS)
    weights[:5] = torch.tensor([1, 1, 0.5, 0.25, 0.125])
    drawn = support_matched(weights, CELLS, 50, np.random.default_rng(0))
    assert drawn.shape == (50, CELLS)
    for row in drawn:
        assert sorted(row[row > 0].tolist()) == sorted(weights[:5].tolist())
    assert len({tuple(row.nonzero().flatten().tolist()) for row in drawn}) > 40  # places vary
    assert (drawn > 0).any(0).float().mean() > 0.9  # over all of the style, not where the region is


def test_a_style_may_have_another_grid_but_not_too_few_cells() -> None:
    weights = torch.ones(10)
    assert support_matched(weights, 12, 3, np.random.default_rng(0)).shape == (3, 12)
    with pytest.raises(InputError, match="10 cells"):
        support_matched(weights, 9, 3, np.random.default_rng(0))


def test_matching_removes_the_area_bias() -> None:
    """Eq. 46: with equal distributions M-FID is d (1/sqrt k - 1/sqrt P)^2 and grows; R-FID is 0."""
    sizes = (64, 32, 16, 8, 4)
    found, floor = [], []
    for size in sizes:
        pairs, styles = collection(size)
        found.append(region_fid(pairs, styles.__getitem__, repeats=5))
        other, _ = collection(size, seed=1)
        floor.append(
            fid(*(statistics([torch.stack([p.embedding for p in some])]) for some in (pairs, other)))
        )
    masked, matched = [value.mfid for value in found], [value.rfid for value in found]
    assert all(later > earlier * 1.5 for earlier, later in pairwise(masked[1:]))
    for size, value in zip(sizes, masked, strict=True):
        assert value == pytest.approx(D * (size**-0.5 - CELLS**-0.5) ** 2, rel=0.25, abs=0.02)
    # What is left in R-FID is what any two sets of n samples show, and far below the bias.
    assert matched == pytest.approx(floor, rel=0.3)
    assert matched[-1] < masked[-1] / 15


def test_the_whole_picture_as_region_makes_both_the_same() -> None:
    pairs, styles = collection(CELLS, 50)
    value = region_fid(pairs, styles.__getitem__, repeats=4)
    assert value.rfid == pytest.approx(value.mfid, rel=1e-4)
    assert value.rfid_std < 1e-4


def test_draws_are_seeded() -> None:
    pairs, styles = collection(8, 40)
    first, again = (region_fid(pairs, styles.__getitem__, seed=3, repeats=4) for _ in range(2))
    other = region_fid(pairs, styles.__getitem__, seed=4, repeats=4)
    assert first == again
    assert first.rfid != other.rfid and first.mfid == other.mfid


def test_little_memory_gives_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, styles = collection(8, 40)
    roomy = region_fid(pairs, styles.__getitem__, repeats=7)
    monkeypatch.setattr(rfid, "MEMORY", 2 * 4 * D * 40)
    assert region_fid(pairs, styles.__getitem__, repeats=7) == roomy


def test_a_wrong_style_is_seen() -> None:
    pairs, styles = collection(16, 100)
    far = {name: features + 1 for name, features in styles.items()}
    right = region_fid(pairs, styles.__getitem__, repeats=3)
    wrong = region_fid(pairs, far.__getitem__, repeats=3)
    assert wrong.rfid == pytest.approx(right.rfid + D, rel=0.1)


def test_regions_without_cells_are_counted() -> None:
    weights = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 0]])
    pairs, without = region_pairs(torch.randn(4, D), weights, ["a", "b", "c"])
    assert [pair.style for pair in pairs] == ["a", "c"] and without == 1
    with pytest.raises(InputError, match="3 regions but 2 styles"):
        region_pairs(torch.randn(4, D), weights, ["a", "b"])
    with pytest.raises(InputError, match="at least 2"):
        region_fid(pairs[:1], {}.__getitem__)
