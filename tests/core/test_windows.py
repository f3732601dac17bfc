"""Windows cover a map, count at every cell for one in all, and one window alone is the map itself."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.core.windows import Windows, overlap, starts

windows = st.builds(
    lambda h, w, side, unit: Windows((h * unit, w * unit), side * unit, unit),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(2, 12),
    st.integers(1, 8),
)


@given(windows)
def test_windows_are_of_one_size_lie_on_the_units_and_overlap(seen):
    for extent in seen.whole:
        found = starts(extent, seen.side, seen.unit)
        length = min(seen.side, extent)
        assert found[0] == 0 and found[-1] == extent - length and found == sorted(set(found))
        assert all(start % seen.unit == 0 for start in found)
        shared = overlap(seen.side, seen.unit)
        assert all(a + length - b >= shared for a, b in pairwise(found))
    cover = torch.zeros(seen.whole)
    for i in range(len(seen)):
        assert seen.cut(cover, i).shape == seen.size
        seen.cut(cover, i).add_(1)
    assert cover.min() >= 1


@given(windows)
def test_what_is_cut_and_blended_is_what_it_was(seen):
    values = torch.randn(1, 2, *seen.whole, generator=torch.Generator().manual_seed(0))
    again = seen.blend(seen.cut(values, i) for i in range(len(seen)))
    torch.testing.assert_close(again, values, atol=1e-6, rtol=1e-6)
    if len(seen) == 1:
        assert torch.equal(again, values)


def test_where_one_window_is_alone_its_values_are_untouched():
    seen = Windows((8, 20), 8)
    values = torch.randn(1, 1, 8, 20)
    again = seen.blend(seen.cut(values, i) for i in range(len(seen)))
    assert torch.equal(again[..., :6], values[..., :6])


def test_a_window_fades_towards_its_border_and_not_towards_the_pictures():
    seen = Windows((8, 14), 8)
    assert seen.corners == ((0, 0), (0, 6))
    left, right = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    row = seen.blend([left, right])[0, 0, 0]
    assert (row[:6] == 0).all() and (row[8:] == 1).all()
    assert 0 < row[6] < row[7] < 1


def test_a_coarser_map_is_cut_at_the_same_places():
    seen = Windows((16, 32), 16, 8)
    fine = torch.arange(16.0 * 32).view(1, 16, 32)
    coarse = torch.nn.functional.avg_pool2d(fine, 2)
    for i in range(len(seen)):
        assert torch.equal(seen.cut(coarse, i, 2), torch.nn.functional.avg_pool2d(seen.cut(fine, i), 2))


def test_parts_are_asked_for_one_by_one():
    seen, alive = Windows((8, 32), 8), []

    def part(i: int) -> torch.Tensor:
        alive.append(i)
        return torch.full((1, 1, 8, 8), float(i))

    seen.blend(map(part, range(len(seen))))
    assert alive == list(range(len(seen))) and len(seen) > 3


def test_windows_that_could_not_go_on_are_refused():
    with pytest.raises(ValueError, match="need 16"):
        starts(32, 8, 8)
