"""Regions against styles: fractional weights, matched support, the bias it removes, R-KID and cosines."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.job import InputError
from mast.metrics import kid, regional
from mast.metrics.fid import fid, statistics
from mast.metrics.regional import (
    RegionPair,
    pool,
    region_distances,
    region_pairs,
    region_weights,
    support_matched,
)

CELLS, D = 64, 16


def collection(size: int, n: int = 400, seed: int = 0) -> tuple[list[RegionPair], dict[str, torch.Tensor]]:
    """Outputs and styles whose cells all come from one distribution; regions of `size` cells."""
    generator = torch.Generator().manual_seed(seed)
    styles = {f"{i}": torch.randn(CELLS, D, generator=generator) for i in range(n)}
    pairs = []
    for name in styles:
        weights = torch.zeros(1, CELLS)
        weights[0, torch.randperm(CELLS, generator=generator)[:size]] = 1
        pairs += region_pairs(torch.randn(CELLS, D, generator=generator), weights, [name], name)[0]
    return pairs, styles


def perfect(pictures: int, styles: int, seed: int) -> tuple[list[RegionPair], dict[str, torch.Tensor]]:
    """Pictures of two regions each whose cells are cells of their styles, in another order; few styles, far
    apart, so that most regions share theirs with others.
    """
    generator = torch.Generator().manual_seed(seed)
    maps = {
        f"{i}": 2 * torch.randn(D, generator=generator) + torch.randn(CELLS, D, generator=generator)
        for i in range(styles)
    }
    pairs = []
    for picture in range(pictures):
        for _ in range(2):
            style = f"{int(torch.randint(styles, (1,), generator=generator))}"
            weights = torch.zeros(1, CELLS)
            weights[0, torch.randperm(CELLS, generator=generator)[:8]] = 1
            pairs += region_pairs(maps[style], weights, [style], f"{picture}")[0]
    return pairs, maps


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
    sizes = (64, 16, 8, 4)
    found, floor = [], []
    for size in sizes:
        pairs, styles = collection(size)
        found.append(region_distances(pairs, styles.__getitem__, repeats=3))
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
    value = region_distances(pairs, styles.__getitem__, repeats=4)
    assert value.rfid == pytest.approx(value.mfid, rel=1e-4)
    assert value.rfid_std < 1e-4


def test_draws_are_seeded() -> None:
    pairs, styles = collection(8, 40)
    first, again = (region_distances(pairs, styles.__getitem__, seed=3, repeats=4) for _ in range(2))
    other = region_distances(pairs, styles.__getitem__, seed=4, repeats=4)
    assert first == again
    assert first.rfid != other.rfid and first.mfid == other.mfid


def test_little_memory_gives_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, styles = collection(8, 40)
    roomy = region_distances(pairs, styles.__getitem__, repeats=7)
    monkeypatch.setattr(regional, "MEMORY", 2 * 4 * D * 40)
    assert region_distances(pairs, styles.__getitem__, repeats=7) == roomy


def test_a_wrong_style_is_seen() -> None:
    pairs, styles = collection(16, 100)
    far = {name: features + 1 for name, features in styles.items()}
    right = region_distances(pairs, styles.__getitem__, repeats=3)
    wrong = region_distances(pairs, far.__getitem__, repeats=3)
    assert wrong.rfid == pytest.approx(right.rfid + D, rel=0.1)


def test_regions_without_cells_are_counted() -> None:
    weights = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 0]])
    pairs, without = region_pairs(torch.randn(4, D), weights, ["a", "b", "c"], "x")
    assert [pair.style for pair in pairs] == ["a", "c"] and without == 1
    with pytest.raises(InputError, match="3 regions but 2 styles"):
        region_pairs(torch.randn(4, D), weights, ["a", "b"], "x")
    with pytest.raises(InputError, match="at least 2"):
        region_distances(pairs[:1], {}.__getitem__)


# ------------------------------------------------------------------------------------------------ R-FID


def test_the_terms_of_rfid_add_up() -> None:
    pairs, styles = collection(8, 40)
    far = {name: 2 * features + 1 for name, features in styles.items()}
    found = region_distances(pairs, far.__getitem__, repeats=3)
    assert found.rfid == pytest.approx(found.rfid_mean_term + found.rfid_trace_term)
    embeddings = torch.stack([pair.embedding for pair in pairs]).double()
    assert found.region_variance == pytest.approx(float(torch.cov(embeddings.T).trace()))
    assert found.rfid_mean_term == pytest.approx(D, rel=0.2)  # a shift of 1 in each dimension


def test_a_shift_is_all_in_the_mean_term() -> None:
    """Whole pictures as regions, so that there is nothing to draw; outputs are their styles but shifted."""
    pairs, styles = collection(CELLS, 30)
    own = {name: pair.embedding for name, pair in zip(styles, pairs, strict=True)}
    shifted = {name: (embedding + 0.5).expand(CELLS, -1) for name, embedding in own.items()}
    found = region_distances(pairs, shifted.__getitem__, repeats=2)
    assert found.rfid_mean_term == pytest.approx(D / 4, rel=1e-4)
    assert found.rfid_trace_term == pytest.approx(0, abs=1e-4)


# ------------------------------------------------------------------------------------------------ R-KID


def test_rkid_is_the_u_statistic_written_out() -> None:
    """The definition, pair by pair, on one draw that cannot vary: regions that are whole pictures."""
    pairs, styles = collection(CELLS, 7)
    found = region_distances(pairs, styles.__getitem__, repeats=1)
    x = torch.stack([pair.embedding for pair in pairs]).double()
    y = torch.stack([features.mean(0) for features in styles.values()]).double()

    def k(a: torch.Tensor, b: torch.Tensor) -> float:
        return (float(a @ b) / D + 1) ** 3

    expected = [
        k(x[i], x[j]) + k(y[i], y[j]) - k(x[i], y[j]) - k(x[j], y[i])
        for i in range(7)
        for j in range(7)
        if i != j
    ]
    assert found.rkid == pytest.approx(np.mean(expected), rel=1e-5)
    assert found.rkid_std == 0


def test_rkid_of_perfect_outputs_is_zero_however_few_the_styles() -> None:
    """Unbiased: over many benchmarks it averages to 0, where KID of the two sets as such lies far below."""
    paired, as_sets = [], []
    for seed in range(40):
        pairs, maps = perfect(10, 3, seed)
        paired.append(region_distances(pairs, maps.__getitem__, seed, repeats=1).rkid)
        (references,) = regional._references(pairs, maps.__getitem__, seed, 1, D)
        as_sets.append(kid(torch.stack([pair.embedding for pair in pairs]), references))
    error = float(np.std(paired)) / len(paired) ** 0.5
    assert abs(np.mean(paired)) < 4 * error
    assert error < 0.05 * abs(np.mean(as_sets)) and np.mean(as_sets) < 0


def test_rkid_does_not_grow_as_regions_get_fewer_where_rfid_does() -> None:
    """Outputs half a deviation off: what R-KID says of 12 regions it says of 120, on average."""

    def means(n: int, times: int) -> tuple[float, float]:
        found = []
        for seed in range(times):
            pairs, styles = collection(CELLS, n, seed)
            off = {name: features + 0.5 for name, features in styles.items()}
            found.append(region_distances(pairs, off.__getitem__, repeats=1))
        return float(np.mean([f.rkid for f in found])), float(np.mean([f.rfid for f in found]))

    (few_kernel, few_frechet), (many_kernel, many_frechet) = means(12, 40), means(120, 4)
    assert few_kernel == pytest.approx(many_kernel, rel=0.1)
    assert few_frechet > many_frechet * 1.02


@given(st.integers(4, 12), st.integers(0, 100), st.randoms(use_true_random=False))
def test_the_order_of_regions_does_not_matter(n: int, seed: int, random) -> None:
    """With nothing to draw (whole pictures as regions) every figure is the same in any order."""
    pairs, styles = collection(CELLS, n, seed)
    shuffled = random.sample(pairs, n)
    one, other = (region_distances(some, styles.__getitem__, repeats=1) for some in (pairs, shuffled))
    for name in ("rfid", "rkid", "mfid", "rfid_mean_term", "region_variance"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6, abs=1e-9)
    assert one.cosines.sort().values.tolist() == pytest.approx(other.cosines.sort().values.tolist())


def test_what_pictures_add_is_all_of_rkid() -> None:
    pairs, maps = perfect(6, 3, 0)
    found = region_distances(pairs, maps.__getitem__, repeats=5)
    assert found.kernel_sums.shape == (6, 6) and found.pictures.tolist() == [i // 2 for i in range(12)]
    assert float(found.kernel_sums.sum()) / (12 * 11) == pytest.approx(found.rkid)
    torch.testing.assert_close(found.kernel_sums, found.kernel_sums.T)


# ------------------------------------------------------------------------------------------------ cosine


@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_cosines_see_direction_alone_and_stay_in_bounds(seed: int, scale: float) -> None:
    pairs, styles = collection(4, 6, seed)
    larger = {name: scale * features for name, features in styles.items()}
    found = region_distances(pairs, styles.__getitem__, repeats=1).cosines
    assert ((found >= -1) & (found <= 1)).all()
    scaled = region_distances(pairs, larger.__getitem__, repeats=1).cosines
    torch.testing.assert_close(found, scaled, rtol=1e-4, atol=1e-5)


def test_a_region_that_is_its_style_has_cosine_one_and_its_opposite_minus_one() -> None:
    features = torch.randn(CELLS, D, generator=torch.Generator().manual_seed(0))
    pairs, _ = region_pairs(features, torch.ones(2, CELLS), ["same", "opposite"], "x")
    maps = {"same": features, "opposite": -features}
    found = region_distances(pairs, maps.__getitem__, repeats=1)
    assert found.cosines.tolist() == pytest.approx([1, -1])
