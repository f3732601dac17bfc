"""COCO's masks: polygons, counts and compressed strings against encoders written here, and damaged files."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mast.job import InputError
from mast.regions.coco import Annotation, decode, decode_counts, fill_polygon, from_counts, read_coco


def encode_counts(mask: np.ndarray) -> list[int]:
    """Run lengths down the columns, zeros first."""
    counts, value = [0], False
    for pixel in mask.T.ravel():
        if pixel != value:
            counts.append(0)
            value = bool(pixel)
        counts[-1] += 1
    return counts


def compress(counts: list[int]) -> str:
    """COCO's string: five bits a character from '0' on, differences from the fourth number on."""
    text = ""
    for i, count in enumerate(counts):
        value = count - (counts[i - 2] if i > 2 else 0)
        more = True
        while more:
            bits = value & 31
            value >>= 5
            more = value != -1 if bits & 16 else value != 0
            text += chr((bits | (32 if more else 0)) + 48)
    return text


@st.composite
def masks(draw: st.DrawFn) -> np.ndarray:
    width, height = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.random((height, width)) < draw(st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]))


@given(masks())
def test_run_lengths_come_back_in_both_forms(mask: np.ndarray) -> None:
    size, counts = mask.shape[::-1], encode_counts(mask)
    assert (from_counts(counts, size) == mask).all()
    assert decode_counts(compress(counts)) == counts
    shape = list(mask.shape)
    assert (decode({"size": shape, "counts": counts}, size) == mask).all()
    assert (decode({"size": shape, "counts": compress(counts)}, size) == mask).all()
    assert (decode({"size": shape, "counts": compress(counts).encode()}, size) == mask).all()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30))
def test_long_runs_survive_the_string(counts: list[int]) -> None:
    assert decode_counts(compress(counts)) == counts


def test_a_string_known_from_the_format() -> None:
    # 6 zeros and 1 one; 40 = 8 + 32 takes two characters; the fourth number is written as 7 - 1 = 6.
    assert decode_counts("61") == [6, 1]
    assert decode_counts("X1") == [40]
    assert decode_counts("6106") == [6, 1, 0, 7]


def test_a_rectangle_covers_the_pixels_whose_centres_it_holds() -> None:
    mask = fill_polygon([2, 1, 6, 1, 6, 4, 2, 4], (10, 8))
    wanted = np.zeros((8, 10), bool)
    wanted[1:4, 2:6] = True
    assert (mask == wanted).all()
    assert (
        fill_polygon([2.6, 1, 6.4, 1, 6.4, 4, 2.6, 4], (10, 8))[2] == wanted[2] & (np.arange(10) > 2)
    ).all()


@given(st.integers(0, 1000), st.integers(3, 9))
def test_a_polygon_is_what_a_ray_from_every_centre_says(seed: int, corners: int) -> None:
    """Even-odd by brute force, also for polygons that cross themselves or leave the photo."""
    points = np.random.default_rng(seed).uniform(-4, 20, (corners, 2))
    mask = fill_polygon(points.ravel().tolist(), (17, 13))
    for y, x in np.ndindex(13, 17):
        inside, cx, cy = False, x + 0.5, y + 0.5
        for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, 0), strict=True):
            if (y0 > cy) != (y1 > cy) and cx > x0 + (cy - y0) * (x1 - x0) / (y1 - y0):
                inside = not inside
        assert mask[y, x] == inside


def test_neighbours_that_share_an_edge_share_no_pixel() -> None:
    left = fill_polygon([0, 0, 7.5, 0, 4.5, 10, 0, 10], (12, 10))
    right = fill_polygon([7.5, 0, 12, 0, 12, 10, 4.5, 10], (12, 10))
    assert not (left & right).any() and (left | right).all()


def test_several_polygons_are_one_object() -> None:
    parts = [[0, 0, 3, 0, 3, 3, 0, 3], [5, 5, 8, 5, 8, 8, 5, 8]]
    assert decode(parts, (10, 10)).sum() == 18


@pytest.mark.parametrize(
    ("segmentation", "words"),
    [
        (None, "neither polygons nor run lengths"),
        ([], "empty"),
        ([[1, 2, 3, 4]], "three points"),
        ([[1, 2, 3, 4, 5, 6, 7]], "x, y pairs"),
        ([[1, 2, 3, float("nan"), 5, 6]], "finite"),
        ({"size": [8, 8], "counts": [64]}, "8x8"),
        ({"size": [10, 10], "counts": [60, 30]}, "sum to 90"),
        ({"size": [10, 10], "counts": [-5, 105]}, "a run of -5"),
        ({"size": [10, 10], "counts": [2**62] * 4}, "a run of 4611686018427387904"),
        ({"size": [10, 10], "counts": [2**32, 100 - 2**32]}, "a run of 4294967296"),
        ({"size": [10, 10], "counts": [100, 10**400]}, "a run of 1000000"),
        ({"size": [10, 10], "counts": [True, 99]}, "whole numbers"),
        ({"size": [10, 10], "counts": {"a": 1}}, "whole numbers"),
        ({"size": [10, 10], "counts": "o" * 10**6}, "without an end"),
        ({"size": [10, 10**400], "counts": [100]}, "the photo 10x10"),
        ({"size": [10], "counts": [100]}, "unpack"),
        ([[1, 2, 3, float("inf"), 5, 6]], "finite"),
        ([[1, 2, 3, 10**400, 5, 6]], "far outside"),
        ([[1, 2, 3, "4", 5, 6]], "no number"),
        ([[1, 2, 3, [4], 5, 6]], "no number"),
        ([None], "a polygon of None"),
        ({"size": [10, 10], "counts": [50.5, 49.5]}, "whole numbers"),
        ({"size": [10, 10], "counts": "~~"}, "cannot be in"),
        ({"size": [10, 10], "counts": "o"}, "cut short"),
        ({"counts": [100]}, "size"),
    ],
)
def test_a_damaged_segmentation_names_its_annotation(segmentation: object, words: str) -> None:
    with pytest.raises(InputError, match=r"annotation 7 \(cat\)") as caught:
        Annotation(7, "cat", False, segmentation).mask((10, 10))
    assert words in str(caught.value)


# ------------------------------------------------------------------------------------------------ files


def test_photos_know_their_objects(tmp_path: Path) -> None:
    polygon = [[0, 0, 5, 0, 5, 5]]
    data = {
        "images": [
            {"id": 1, "file_name": "val/a.jpg", "width": 20, "height": 10},
            {"id": 2, "file_name": "b.jpg", "width": 8, "height": 8},
        ],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"id": 9, "image_id": 1, "category_id": 3, "iscrowd": 0, "segmentation": polygon},
            {"id": 8, "image_id": 1, "category_id": 99, "iscrowd": 1, "segmentation": polygon},
        ],
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(data))
    photos = read_coco(path)
    assert set(photos) == {"a.jpg", "b.jpg"}
    (photo,) = photos["a.jpg"]
    assert photo.size == (20, 10)
    assert [(a.id, a.name, a.crowd) for a in photo.annotations] == [(9, "cat", False), (8, "object", True)]
    assert photos["b.jpg"][0].annotations == ()


def test_sums_that_wrap_around_are_no_sums() -> None:
    """Four runs of 2^62 sum to 0 in 64 bits; so do these to 100, which once ended the process."""
    wrapping = [2**62, 2**62, 2**62, 2**62 + 100]
    assert np.array(wrapping, np.uint64).sum() == 100
    for counts in (wrapping, compress(wrapping)):
        with pytest.raises(ValueError, match="a run"):
            decode({"size": [10, 10], "counts": counts}, (10, 10))


ENTRY = '{{"id": 1, "file_name": "a.jpg", "width": {width}, "height": {height}}}'


@pytest.mark.parametrize("side", ["Infinity", "-Infinity", "NaN", "1e400", "1" + "0" * 400, "0", "-5", "2.5"])
@pytest.mark.parametrize("which", ["width", "height"])
def test_sizes_that_no_photo_has(tmp_path: Path, side: str, which: str) -> None:
    entry = ENTRY.format(**{"width": "9", "height": "9", which: side})
    path = tmp_path / "x.json"
    path.write_text(f'{{"images": [{entry}], "annotations": []}}')
    with pytest.raises(
        InputError, match=r"x\.json: (an entry is damaged \(a side of|damaged JSON)"
    ) as caught:
        read_coco(path)
    assert len(str(caught.value)) < 300


def test_more_pixels_than_any_photo_has(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(f'{{"images": [{ENTRY.format(width=10**6, height=10**6)}], "annotations": []}}')
    with pytest.raises(InputError, match="a photo of 1000000x1000000 pixels"):
        read_coco(path)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**62, 2**63, 10**400, -1, 1e308, float("inf"), float("nan"), "", "0", "o" * 99])
    | st.floats()
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def entries(*names: str) -> st.SearchStrategy[dict[str, object]]:
    """Objects with these names, any of them missing, holding now what belongs there and now anything."""
    usual = st.integers(0, 3) | st.just("a.jpg")
    shapes = st.fixed_dictionaries({}, optional={"size": values, "counts": values}) | st.lists(values)
    return st.fixed_dictionaries(
        {}, optional={name: (shapes if name == "segmentation" else usual) | values for name in names}
    )


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "images": st.lists(entries("id", "file_name", "width", "height"), max_size=3) | values,
            "annotations": st.lists(
                entries("id", "image_id", "category_id", "iscrowd", "segmentation"), max_size=4
            )
            | values,
            "categories": st.lists(entries("id", "name"), max_size=2) | values,
        },
    )
    | values
)
@settings(max_examples=300)
def test_any_json_is_a_result_or_refused_in_words(tmp_path: Path, data: object) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    try:
        for photos in read_coco(path).values():
            for photo in photos:
                for annotation in sorted(photo.annotations, key=lambda a: a.id):  # as CocoSource does
                    assert annotation.mask(photo.size).shape == photo.size[::-1]
    except InputError as error:
        assert len(str(error)) < 500


@given(entries("segmentation"), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=300)
def test_any_segmentation_is_a_mask_or_refused_in_words(
    entry: dict[str, object], width: int, height: int
) -> None:
    try:
        mask = Annotation(1, "cat", False, entry.get("segmentation")).mask((width, height))
    except InputError:
        return
    assert mask.shape == (height, width) and mask.dtype == bool


@given(st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(-3, 90) | st.integers(), max_size=12))
@settings(max_examples=300)
def test_any_counts_are_a_mask_or_refused_in_words(width: int, height: int, counts: list[int]) -> None:
    """Also when the last run is made to fit, so that good ones are among them."""
    for runs in (counts, [*counts, width * height - sum(counts)]):
        try:
            mask = from_counts(runs, (width, height))
        except ValueError:
            continue
        assert min(runs) >= 0 and sum(runs) == width * height
        assert mask.sum() == sum(runs[1::2])


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_in_words_or_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        read_coco(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such annotation file"),
        ('{"images": [', "damaged JSON"),
        ("[]", "'images' is missing"),
        ('{"images": []}', "'annotations' is missing"),
        ('{"images": [{"id": 1, "file_name": "a", "width": 5}], "annotations": []}', "no 'height'"),
        ('{"images": [], "annotations": [{"id": 1}]}', "no 'image_id'"),
        ('{"images": [], "annotations": [5]}', "damaged"),
        ('{"images": [], "annotations": [{"id": 1, "image_id": [1]}]}', "an id is [1]"),
        ('{"images": [], "annotations": [{"id": 1.5, "image_id": 1}]}', "an id is 1.5"),
        (
            '{"images": [], "annotations": [{"id": 1, "image_id": 1}, {"id": "b", "image_id": 1}]}',
            "ids of annotations are numbers and text mixed",
        ),
        (
            '{"images": [], "annotations": [{"id": 1, "image_id": 1}, {"id": 2, "image_id": "1"}]}',
            "ids of photos are numbers and text mixed",
        ),
        ('{"images": [], "annotations": [], "categories": [{"id": 1, "name": "\\ud800"}]}', "damaged"),
        ('{"images": ' + "[" * 100_000 + "]" * 100_000 + "}", "damaged JSON"),
    ],
)
def test_a_file_that_is_no_annotation_file_is_refused_by_name(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json") as caught:
        read_coco(path)
    assert words in str(caught.value)
