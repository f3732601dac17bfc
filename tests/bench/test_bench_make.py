"""The data set: the paper's counts, disjoint tuples, regions that tile, and nothing half-made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.bench.data.make import make
from mast.bench.data.manifest import Manifest, read, verify
from mast.job import InputError
from mast.regions.partition import SMALLEST_SHARE, Found, Tiling, apart, filled, layered
from mast.regions.sam import model as sam
from mast.regions.segment import Proposal
from mast.regions.sources import CocoSource, LabelSource, MaskSource, pictures, segment_map
from tests.regions.random_sam import write_checkpoint
from tests.tiny import picture

W, H = 64, 48


def box(x0: int, y0: int, x1: int, y1: int) -> list[list[int]]:
    return [[x0, y0, x1, y0, x1, y1, x0, y1]]


def box_mask(x0: int, y0: int, x1: int, y1: int) -> np.ndarray:
    mask = np.zeros((H, W), bool)
    mask[y0:y1, x0:x1] = True
    return mask


BOXES = [(0, 0, 30, 40), (28, 10, 50, 40), (34, 0, 60, 12), (2, 42, 20, 48), (52, 40, 60, 46)]


def photo_folder(root: Path, count: int) -> Path:
    folder = root / "photos"
    folder.mkdir()
    for i in range(count):
        picture(W, H, i).save(folder / f"photo {i:02d}.png")
    return folder


def style_folder(root: Path, count: int) -> Path:
    """16-px paintings, all different, some of them in a folder below."""
    folder = root / "styles"
    (folder / "more").mkdir(parents=True)
    for i in range(count):
        shade = Image.new("RGB", (16, 16), (i % 256, i // 256, 90))
        shade.save(folder / ("more" if i % 5 == 0 else ".") / f"style{i:03d}.png")
    return folder


def annotation_file(root: Path, photos: Path, boxes: list[tuple[int, int, int, int]] = BOXES) -> Path:
    """Every photo has these objects and a crowd over almost everything; another photo is in it too."""
    images: list[dict[str, Any]] = [{"id": 999, "file_name": "absent.jpg", "width": 9, "height": 9}]
    annotations = []
    for i, path in enumerate(pictures(photos)):
        images.append({"id": i, "file_name": path.name, "width": W, "height": H})
        for j, corners in enumerate(boxes):
            entry = {"id": 100 * i + j, "image_id": i, "category_id": 1, "segmentation": box(*corners)}
            annotations.append({**entry, "iscrowd": 0})
        crowd = {"size": [H, W], "counts": [0, W * H - 1, 1]}
        annotations.append({"id": 100 * i + 99, "image_id": i, "iscrowd": 1, "segmentation": crowd})
    path = root / "instances.json"
    categories = [{"id": 1, "name": "cat"}]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Manifest]:
    """A benchmark of two photos and seven styles; keyword arguments change it."""
    photos, styles = photo_folder(tmp_path, 2), style_folder(tmp_path, 7)
    annotations = annotation_file(tmp_path, photos)

    def call(name: str = "bench", **changes: Any) -> Manifest:
        arguments = {
            "contents": pictures(photos),
            "styles": pictures(styles, deep=True),
            "source": CocoSource(annotations),
            "n": (2, 3),
            **changes,
        }
        return make(tmp_path / name, **arguments)

    return call


# ------------------------------------------------------------------------------------------------ protocol


def test_twenty_photos_and_360_styles_make_the_papers_counts(tmp_path: Path) -> None:
    photos, styles = photo_folder(tmp_path, 20), style_folder(tmp_path, 360)
    source = CocoSource(annotation_file(tmp_path, photos))
    manifest = make(tmp_path / "bench", pictures(photos), pictures(styles, deep=True), source, (2, 3, 4, 5))
    assert manifest.counts() == {2: 3600, 3: 2400, 4: 1800, 5: 1440}
    for n in (2, 3, 4, 5):
        samples = manifest.of(n)
        tuples = {s.tuple_index: tuple(r.style.path for r in s.regions) for s in samples}
        flat = [path for group in tuples.values() for path in group]
        assert len(tuples) == 360 // n and len(flat) == len(set(flat)) == 360  # disjoint, none left out
        pairs = {(s.tuple_index, s.content.path) for s in samples}
        assert len(pairs) == len(samples) == 360 // n * 20  # every tuple with every photo
    assert (manifest.header.contents, manifest.header.styles) == (20, 360)
    assert not any("left over" in note for note in manifest.header.notes)


def test_two_makes_are_the_same_bytes_whatever_order_the_files_come_in(
    small: Callable[..., Manifest], tmp_path: Path
) -> None:
    first, again = small("first"), small("again")
    assert first.path.read_bytes() == again.path.read_bytes()
    shuffled = list(reversed(pictures(tmp_path / "styles", deep=True)))
    assert small("shuffled", styles=shuffled).path.read_bytes() == first.path.read_bytes()
    names = sorted(path.name for path in (first.path.parent / "masks").iterdir())
    for name in names:
        masks = [m.path.parent / "masks" / name for m in (first, again)]
        assert masks[0].read_bytes() == masks[1].read_bytes()
    assert small("other", seed=1).path.read_bytes() != first.path.read_bytes()


def test_folders_are_listed_by_name_not_as_the_disk_pleases(tmp_path: Path) -> None:
    made = [Image.new("RGB", (16, 16)).save(tmp_path / name) for name in ("b.png", "a.png", "C.jpg")]
    (tmp_path / ".hidden.png").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "below").mkdir()
    Image.new("RGB", (16, 16)).save(tmp_path / "below" / "d.png")
    assert len(made) == 3
    assert [path.name for path in pictures(tmp_path)] == ["C.jpg", "a.png", "b.png"]
    assert [path.name for path in pictures(tmp_path, deep=True)] == ["C.jpg", "a.png", "b.png", "d.png"]


def test_renaming_a_painting_changes_no_tuple(small: Callable[..., Manifest], tmp_path: Path) -> None:
    before = [[r.style.sha256 for r in s.regions] for s in small("before").samples]
    first = pictures(tmp_path / "styles")[0]
    first.rename(first.with_name("zzz.png"))
    after = [[r.style.sha256 for r in s.regions] for s in small("after").samples]
    assert before == after


def test_styles_left_over_and_doubled_are_said(small: Callable[..., Manifest], tmp_path: Path) -> None:
    notes = small().header.notes
    assert "N = 2: 1 styles of 7 are left over and not used" in notes
    assert "N = 3: 1 styles of 7 are left over and not used" in notes
    twin = pictures(tmp_path / "styles")[0]
    (twin.parent / "twin.png").write_bytes(twin.read_bytes())
    doubled = small("twice", styles=pictures(tmp_path / "styles", deep=True)).header.notes
    assert any("more than once" in note and "twin.png" in note for note in doubled)
    assert small("few", max_styles=4).header.styles == 4


def test_the_benchmark_is_whole(small: Callable[..., Manifest]) -> None:
    manifest = small()
    verify(manifest)
    assert sorted(path.name for path in manifest.path.parent.iterdir()) == [
        "manifest.jsonl",
        "masks",
        "masks.png",
    ]
    assert manifest.samples[0].id == "n2-t000-photo_00"
    for sample in manifest.samples:
        masks = np.stack([np.asarray(Image.open(r.mask.path)) for r in sample.regions])
        assert set(np.unique(masks)) <= {0, 255}
        assert ((masks == 255).sum(0) == 1).all()  # exclusive and exhaustive
        assert (masks.mean((1, 2)) / 255 >= SMALLEST_SHARE).all()
        assert sample.regions[-1].name == "background"
    assert Image.open(manifest.path.with_name("masks.png")).width > 3 * W


# ------------------------------------------------------------------------------------------------ regions


def test_the_largest_objects_are_chosen_the_smaller_in_front_and_crowds_never(
    small: Callable[..., Manifest],
) -> None:
    (sample,) = [s for s in small().of(3) if s.id.startswith("n3-t000") and s.id.endswith("00")]
    assert [region.name for region in sample.regions] == ["cat", "cat-2", "background"]
    first, second, rest = (np.asarray(Image.open(r.mask.path)) > 0 for r in sample.regions)
    assert (second == box_mask(*BOXES[1])).all()  # the smaller one has the overlap
    assert (first == box_mask(*BOXES[0]) & ~second).all()
    assert (rest == ~(first | second)).all()  # the crowd's area is background


def test_the_same_object_annotated_twice_is_one_region() -> None:
    large, twin, small_one = box_mask(0, 0, 30, 40), box_mask(0, 0, 30, 40), box_mask(40, 0, 60, 12)
    made = layered([Found("a", large), Found("twin", twin), Found("b", small_one)], 3)
    assert made is not None and made.names == ("a", "b", "background")


def test_specks_are_no_objects_and_a_background_must_remain() -> None:
    speck, whole = box_mask(0, 0, 1, 2), np.ones((H, W), bool)
    assert layered([Found("speck", speck)], 2) is None
    assert layered([Found("whole", whole)], 2) is None
    assert layered([Found("speck", box_mask(0, 0, 1, 3))], 2) is not None  # 3 of 3072 pixels: just enough


def test_of_alternative_masks_the_set_that_covers_most_is_taken() -> None:
    cat, face, body = box_mask(0, 0, 40, 48), box_mask(0, 0, 40, 30), box_mask(0, 30, 40, 48)
    eye = box_mask(2, 2, 8, 8)
    found = [Found("eye", eye), Found("body", body), Found("cat", cat), Found("face", face)]
    two, three = apart(found, 2), apart(found, 3)
    assert two is not None and two.names == ("cat", "background")
    assert three is not None and three.names == ("face", "body", "background")
    assert apart(found, 4) is None  # eye and face are one and the same place


@st.composite
def objects(draw: st.DrawFn) -> list[Found]:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    found = []
    for i in range(draw(st.integers(0, 7))):
        x0, y0 = rng.integers(0, W - 2), rng.integers(0, H - 2)
        found.append(Found(f"o{i}", box_mask(x0, y0, rng.integers(x0, W) + 1, rng.integers(y0, H) + 1)))
    return found


@given(objects(), st.integers(2, 5), st.sampled_from([layered, apart]))
def test_whatever_the_objects_regions_tile_and_none_vanishes(
    found: list[Found], n: int, divide: Callable[..., Tiling | None]
) -> None:
    made = divide(found, n)
    if made is None:
        return
    masks = made.masks()
    assert masks.shape == (n, H, W) and (masks.sum(0) == 1).all()
    assert (masks.mean((1, 2)) >= SMALLEST_SHARE).all()
    assert len(set(made.names)) == n and made.names[-1] == "background"
    assert made.regions.tobytes() == divide(found, n).regions.tobytes()  # type: ignore[union-attr]


def test_segments_give_unannotated_pixels_to_the_region_they_lie_in() -> None:
    cat, other = box_mask(0, 0, 20, 20), box_mask(0, 30, 64, 48)
    made = layered([Found("cat", cat)], 2)
    assert made is not None
    segments = np.zeros((H, W), int)
    segments[0:22, 0:22] = 7  # the cat and a rim around it
    segments[24:48, :] = 70_000  # mostly what another annotation covers
    segments[0:20, 40:64] = 5  # touches nothing
    free = ~(cat | other)
    regions = filled(made, free, segments).regions
    assert (regions[0:22, 0:22] == 0).all()
    assert (regions[22:] == 1).all() and (regions[:, 22:] == 1).all()
    sky = np.ones((H, W), int)  # one segment over everything, of which the cat is a small part
    assert (filled(made, free, sky).regions == made.regions).all()


# ------------------------------------------------------------------------------------------------ sources


def test_segments_are_used_and_said(small: Callable[..., Manifest], tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    folder.mkdir()
    annotations = tmp_path / "instances.json"
    without_crowds(annotations)
    for path in pictures(tmp_path / "photos"):
        labels = np.zeros((H, W), np.uint8)
        labels[:42, :30] = 3
        Image.fromarray(labels).save(folder / f"{path.stem}.png")
    manifest = small("filled", source=CocoSource(annotations, folder), n=(2,))
    assert manifest.header.unannotated == "segments"
    mask = np.asarray(Image.open(manifest.samples[0].regions[0].mask.path)) > 0
    assert mask.sum() == 30 * 42  # the object ends at row 40, its segment at 42
    assert small("plain").header.unannotated == "background"


def without_crowds(annotations: Path) -> Path:
    data = json.loads(annotations.read_text())
    data["annotations"] = [a for a in data["annotations"] if not a["iscrowd"]]
    annotations.write_text(json.dumps(data))
    return annotations


class Boxes:
    """Proposes a box over the first object, two rows longer, and in it a small one that is sky."""

    name = "boxes"

    def propose(self, photo: Image.Image) -> list[Proposal]:
        return [Proposal(box_mask(0, 0, 30, 42), 0.9), Proposal(box_mask(0, 41, 8, 44), 0.95)]


def test_a_segmenter_fills_and_is_named(small: Callable[..., Manifest], tmp_path: Path) -> None:
    source = CocoSource(without_crowds(tmp_path / "instances.json"))
    source.fill_by(Boxes())
    manifest = small("filled", source=source, n=(2, 3))
    assert manifest.header.unannotated == "boxes"
    assert (
        "unannotated pixels are filled by the segments of boxes (paper: FastSAM's)" in manifest.header.notes
    )
    mask = np.asarray(Image.open(manifest.samples[0].regions[0].mask.path)) > 0
    assert mask.sum() == 30 * 42 - 8  # the small one is in front, and in no object
    for sample in manifest.samples:
        masks = [np.asarray(Image.open(r.mask.path)).astype(int) for r in sample.regions]
        assert (np.sum(masks, 0) == 255).all()


def test_segments_are_numbered_from_large_to_small_at_the_photos_size() -> None:
    class Quarters:
        name = "quarters"

        def propose(self, photo: Image.Image) -> list[Proposal]:
            mask = np.zeros((photo.height, photo.width), bool)
            mask[: photo.height // 2] = True
            corner = mask.copy()
            corner[:, photo.width // 2 :] = False
            return [Proposal(corner, 0.9), Proposal(mask, 0.5), Proposal(~mask & False, 1.0)]

    labels = segment_map(Quarters(), picture(1200, 900))  # looked at smaller than it is
    assert labels.shape == (900, 1200)
    assert (labels[:448, :598] == 2).all() and (labels[:448, 602:] == 1).all() and (labels[452:] == 0).all()


@pytest.mark.slow
def test_mobile_sam_fills(
    small: Callable[..., Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real network with weights of no sense, a few clicks, and every mask taken that comes out."""
    for name, value in (("CLICKS", 4), ("SURE", -9.0), ("STABLE", 0.0)):
        monkeypatch.setattr(sam, name, value)
    source = CocoSource(without_crowds(tmp_path / "instances.json"))
    source.fill_by(sam.MobileSam(write_checkpoint(tmp_path / "sam.pt")))
    photos = pictures(tmp_path / "photos")[:1]
    manifest = small("filled", source=source, n=(2,), contents=photos)
    assert manifest.header.unannotated == "mobile-sam"
    masks = [np.asarray(Image.open(r.mask.path)).astype(int) for r in manifest.samples[0].regions]
    assert (np.sum(masks, 0) == 255).all() and (masks[0][box_mask(0, 0, 28, 40)] == 255).all()
    labels = segment_map(sam.MobileSam(tmp_path / "sam.pt"), Image.open(photos[0]).convert("RGB"))
    assert labels.max() >= 1


def test_masks_by_name(small: Callable[..., Manifest], tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    for i, stem in enumerate(("photo 00", "photo 01")):
        for name, mask in {
            "left": box_mask(0, 0, 32 - i, H),
            "corner": box_mask(40, 0, 60, 20),
            "background": box_mask(32, 0, 64, H),
            "all": box_mask(0, 0, W, H - 1),
        }.items():
            soft = Image.fromarray(mask.astype(np.uint8) * 255).resize((2 * W, 2 * H))  # another size will do
            soft.save(folder / f"{stem}-{name}.png")
    manifest = small(source=MaskSource(folder, ["photo 00", "photo 01"]))
    assert manifest.header.source == "masks"
    assert [r.name for r in manifest.of(3)[0].regions] == ["left", "corner", "background"]
    (folder / "photo 01-left.png").unlink()
    with pytest.raises(InputError, match=r"photo 01\.png: its 1 objects") as caught:
        small("less", source=MaskSource(folder, ["photo 00", "photo 01"]))
    assert "photo 00" not in str(caught.value)


def test_a_mask_belongs_to_the_longest_name(tmp_path: Path) -> None:
    for name in ("cat-two-eye", "cat-eye", "dog-eye"):
        Image.fromarray(box_mask(0, 0, 20, 20).astype(np.uint8) * 255).save(tmp_path / f"{name}.png")
    source = MaskSource(tmp_path, ["cat", "cat-two"])
    assert [f.name for f in source.objects(Path("cat.jpg"), (W, H)).found] == ["eye"]
    assert [f.name for f in source.objects(Path("cat-two.jpg"), (W, H)).found] == ["eye"]
    with pytest.raises(InputError, match=r"bird\.jpg: no mask bird-REGION"):
        source.objects(Path("bird.jpg"), (W, H))


@pytest.mark.parametrize("mode", ["L", "P", "I;16", "RGB"])
def test_label_maps_of_every_kind(mode: str, tmp_path: Path) -> None:
    labels = np.zeros((H, W), np.uint8)
    labels[:, :30], labels[:20, 30:], labels[47, 63] = 2, 1, 9
    if mode == "RGB":
        image = Image.fromarray(np.stack([labels * 20] * 3, -1))
    elif mode == "P":
        image = Image.fromarray(labels).convert("P")
        image.putdata(labels.ravel().tolist())
    else:
        image = Image.fromarray(labels if mode == "L" else labels.astype(np.uint16))
    image.save(tmp_path / "photo.png")
    made = LabelSource(tmp_path).objects(Path("photo.jpg"), (W, H)).partition(3)
    assert made is not None
    assert made.names == ("label-2", "label-1", "background")
    assert (made.masks()[0] == (labels == 2)).all() and (made.masks()[1] == (labels == 1)).all()
    larger = LabelSource(tmp_path).objects(Path("photo.jpg"), (2 * W, 2 * H)).partition(3)
    assert larger is not None and (larger.regions[::2, ::2] == made.regions).all()
    with pytest.raises(InputError, match=r"photo\.png.*another shape"):
        LabelSource(tmp_path).objects(Path("photo.jpg"), (H, W))


# ------------------------------------------------------------------------------------------------ refusals


def test_everything_that_is_wrong_is_named_at_once_and_nothing_is_written(
    small: Callable[..., Manifest], tmp_path: Path
) -> None:
    photos, styles = tmp_path / "photos", tmp_path / "styles"
    (photos / "damaged.png").write_bytes((photos / "photo 00.png").read_bytes()[:200])
    picture(W, H, 8).save(photos / "unknown.png")
    picture(W + 2, H, 8).save(photos / "photo 01.png")
    (styles / "empty.jpg").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as caught:
        small(contents=pictures(photos), styles=[*pictures(styles), tmp_path / "gone.png"], n=(2, 7))
    text = str(caught.value)
    for words in (
        "6 problems",
        "damaged.png: damaged or cut short",
        "unknown.png: ",
        "has no photo of this name",
        "photo 01.png: 66x48, but annotated at 64x48",
        "empty.jpg: the file is empty",
        "gone.png: no such file",
        "photo 00.png: its 5 objects",
        "N = 7",
    ):
        assert words in text, words
    assert sorted(tmp_path.rglob("*")) == before


def test_photos_with_too_few_objects_can_drop_out(small: Callable[..., Manifest], tmp_path: Path) -> None:
    data = json.loads((tmp_path / "instances.json").read_text())
    data["annotations"] = [a for a in data["annotations"] if a["image_id"] != 1 or a["id"] == 100]
    (tmp_path / "instances.json").write_text(json.dumps(data))
    source = CocoSource(tmp_path / "instances.json")
    with pytest.raises(InputError, match=r"photo 01\.png: its 1 objects"):
        small(source=source)
    manifest = small(source=source, skip_small=True)
    assert manifest.counts() == {2: 6, 3: 2}
    assert "N = 3: 1 photos have too few objects and are left out: photo 01.png" in manifest.header.notes
    with pytest.raises(InputError, match="no photo has objects enough for N = 7"):
        small("seven", source=source, skip_small=True, n=(2, 7))


def test_numbers_and_styles_that_make_no_tuple(small: Callable[..., Manifest]) -> None:
    for n in ((), (1, 2), (2, 99)):
        with pytest.raises(InputError, match="from 2 to"):
            small(n=n)
    with pytest.raises(InputError, match="2 styles do not make one tuple of 3"):
        small(max_styles=2)


def test_photos_that_cannot_be_told_apart(small: Callable[..., Manifest], tmp_path: Path) -> None:
    picture(W, H, 1).save(tmp_path / "photos" / "photo 00.jpg")
    with pytest.raises(InputError, match="the same name as"):
        small(contents=pictures(tmp_path / "photos"))


def test_a_folder_in_use_is_kept(small: Callable[..., Manifest], tmp_path: Path) -> None:
    manifest = small()
    with pytest.raises(InputError, match="--overwrite"):
        small()
    replaced = small(overwrite=True, seed=3)
    assert read(manifest.path).header.seed == replaced.header.seed == 3
    (tmp_path / "bench" / "results").mkdir()
    with pytest.raises(InputError, match=r"more than a benchmark \(results\)"):
        small(overwrite=True)
    assert read(manifest.path).header.seed == 3
    with pytest.raises(InputError, match="holds more than a benchmark"):
        small("photos", overwrite=True)
    with pytest.raises(InputError, match="this is a file"):
        small("instances.json", overwrite=True)
    with pytest.raises(InputError, match="no such folder"):
        small("a/b")
    (tmp_path / "empty").mkdir()
    assert small("empty").path.is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_benchmark_is_not_replaced_by_one_made_from_it(
    small: Callable[..., Manifest], tmp_path: Path
) -> None:
    small()
    with pytest.raises(InputError, match="made from it"):
        small(overwrite=True, source=MaskSource(tmp_path / "bench" / "masks", ["photo_00"]))


def test_a_failed_write_leaves_the_old_benchmark_and_no_trace(
    small: Callable[..., Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = small().path.read_bytes()
    real = os.rename

    def fails(source: Any, target: Any) -> None:
        if Path(target) == tmp_path / "bench" and ".aside" not in str(source):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(InputError, match="No space left on device"):
        small(overwrite=True, seed=9)
    assert (tmp_path / "bench" / "manifest.jsonl").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_squares_are_cut_with_their_objects(tmp_path: Path, small: Callable[..., Manifest]) -> None:
    """Regions are chosen by what is seen of them in the centre square, 48 px of 64."""
    made = small(square=True, n=(2, 3))
    home = made.path.parent
    assert sorted(path.name for path in home.iterdir()) == ["manifest.jsonl", "masks", "masks.png", "photos"]
    verify(made)
    first = made.samples[0]
    assert first.content.path.parent == home / "photos"
    photo = np.asarray(Image.open(first.content.path))
    original = np.asarray(Image.open(tmp_path / "photos" / "photo 00.png"))
    assert photo.shape == (48, 48, 3) and (photo == original[:, 8:56]).all(), "pixel by pixel, not resized"
    for sample in made.samples:
        masks = np.stack([np.asarray(Image.open(region.mask.path)) for region in sample.regions]) // 255
        assert masks.shape[1:] == (48, 48) and (masks.sum(0) == 1).all()
    # Whole, the first object has 30 x 40 pixels; of its 22 x 40 in the square the second hides 2 x 30.
    largest = np.asarray(Image.open(made.of(2)[0].regions[0].mask.path)) > 0
    assert largest.sum() == 22 * 40 and (largest == box_mask(0, 0, 30, 40)[:, 8:56]).all()
    assert any("cut down to the photos' centre squares" in note for note in made.header.notes)
    assert small(square=True, n=(2, 3), overwrite=True).sha256 == made.sha256


def test_photos_that_were_cropped_before_are_refused_with_the_way_out(
    tmp_path: Path, small: Callable[..., Manifest]
) -> None:
    path = tmp_path / "photos" / "photo 00.png"
    Image.open(path).crop((8, 0, 56, 48)).save(path)
    with pytest.raises(InputError, match=r"48x48, but annotated at 64x48.*as COCO publishes it.*--square"):
        small()
