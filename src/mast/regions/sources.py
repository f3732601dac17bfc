"""Where a photo's objects come from: COCO annotations, a folder of masks, or a folder of label maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from ..images import PICTURES, read_mask, read_rgb
from ..job import InputError
from .auto import LOOK, at_most
from .coco import Annotation, Photo, read_coco
from .edit import INSIDE
from .labels import SUFFIXES, at_size, read_labels
from .masks import match_size
from .partition import BACKGROUND, SMALLEST_SHARE, Found, Tiling, apart, filled, layered, ranked
from .segment import Segmenter, propose

WHOLE = 0.95  # a mask that covers this share of its photo is the photo's background


@dataclass
class Objects:
    """The objects of one photo, and how they are divided. `free` marks the pixels that nothing annotates."""

    found: list[Found]
    divide: Callable[[Sequence[Found], int], Tiling | None]
    free: np.ndarray | None = None
    segments: np.ndarray | None = None

    def partition(self, n: int) -> Tiling | None:
        """N regions that tile the photo, or None where the objects do not suffice."""
        made = self.divide(self.found, n)
        if made is None or self.free is None or self.segments is None:
            return made
        made = filled(made, self.free, self.segments)
        left = int((made.regions == n - 1).sum())
        return made if left >= SMALLEST_SHARE * made.regions.size else None

    def cropped(self, box: tuple[int, int, int, int]) -> Objects:
        """What is seen of them in a part of the photo; box: left, upper, right, lower."""
        left, upper, right, lower = box
        cut = lambda values: None if values is None else values[upper:lower, left:right]
        found = [Found(one.name, one.mask[upper:lower, left:right]) for one in self.found]
        return Objects(found, self.divide, cut(self.free), cut(self.segments))

    def large(self) -> int:
        return len(ranked(self.found))


class ObjectSource(Protocol):
    """Gives the objects of a photo by its path and (w, h); InputError says why it cannot."""

    kind: str
    unannotated: str
    notes: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Path, ...]: ...

    def objects(self, content: Path, size: tuple[int, int]) -> Objects: ...


@dataclass
class CocoSource:
    """COCO's objects. A crowd is a group and no object: it is never chosen, and its area is background.

    segments: a folder of label maps NAME.png, one for each photo, from any segmenter; they decide which
    region the unannotated pixels belong to (the paper uses FastSAM's). Without them those are background,
    unless a segmenter of ours is to find them (`fill_by`).
    """

    annotations: Path
    segments: Path | None = None
    kind = "coco"
    notes: tuple[str, ...] = (
        "objects are ranked by the pixel area of their mask; where chosen ones overlap, the smaller wins",
        "crowd annotations are groups, not objects: they are never chosen and their area is background",
    )

    def __post_init__(self) -> None:
        if self.segments is not None:
            need_folder(self.segments, "segments")
        self._photos = read_coco(self.annotations)
        self.unannotated = "background" if self.segments is None else "segments"
        self._segmenter: Segmenter | None = None

    def fill_by(self, segmenter: Segmenter) -> None:
        """From now on what a segmenter finds decides where the unannotated pixels belong."""
        self._segmenter, self.unannotated = segmenter, segmenter.name
        self.notes += (
            f"unannotated pixels are filled by the segments of {segmenter.name} (paper: FastSAM's)",
        )

    @property
    def inputs(self) -> tuple[Path, ...]:
        return (self.annotations, *([self.segments] if self.segments is not None else []))

    def objects(self, content: Path, size: tuple[int, int]) -> Objects:
        found, annotated = [], np.zeros((size[1], size[0]), bool)
        for annotation, mask in annotated_objects(self._photos, self.annotations, content, size):
            annotated |= mask
            if not annotation.crowd:
                found.append(Found(annotation.name, mask))
        segments = None if self.segments is None else labels_of(self.segments, content, size)
        if self._segmenter is not None:
            segments = segment_map(self._segmenter, read_rgb(content, "photo"))
        return Objects(found, layered, ~annotated, segments)


def segment_map(segmenter: Segmenter, photo: Image.Image) -> np.ndarray:
    """int (h, w): the objects that a segmenter proposes, numbered from 1, the smaller in front of the larger;
    0 where there is none.
    """
    small = at_most(photo, LOOK)
    masks = [one.mask >= INSIDE for one in propose(segmenter, small)]
    labels = np.zeros((small.height, small.width), np.int32)
    for number, mask in enumerate(sorted(masks, key=lambda mask: -int(mask.sum())), 1):
        labels[mask] = number
    return np.asarray(Image.fromarray(labels).resize(photo.size, Image.Resampling.NEAREST))


def annotated_objects(
    photos: dict[str, list[Photo]], annotations: Path, content: Path, size: tuple[int, int]
) -> list[tuple[Annotation, np.ndarray]]:
    """A photo's annotations and their masks, bool (h, w), in the order of their ids."""
    of_name = photos.get(content.name, [])
    if len(of_name) != 1:
        raise InputError(
            f"{content}: {annotations} "
            + ("has no photo of this name" if not of_name else f"has {len(of_name)} photos of this name")
        )
    photo = of_name[0]
    if photo.size != size:
        raise InputError(
            f"{content}: {size[0]}x{size[1]}, but annotated at {photo.size[0]}x{photo.size[1]}; how it was "
            "cropped or resized is not known, so use the photo as COCO publishes it (mast bench make "
            "--square cuts squares, annotations and all)"
        )
    try:
        return [(one, one.mask(size)) for one in sorted(photo.annotations, key=lambda a: a.id)]
    except InputError as error:
        raise InputError(f"{content}: {error}") from error


@dataclass
class MaskSource:
    """Binary masks NAME-REGION.png of the photo NAME; a pixel is in from half white on.

    One called `background`, or one that covers nearly the whole photo, is the background and no object.
    """

    folder: Path
    stems: Sequence[str]
    kind = "masks"
    unannotated = "background"
    notes: tuple[str, ...] = (
        "of masks that overlap, alternatives to each other, the set that covers most is taken; the rest is "
        "background",
    )
    _of: dict[str, list[tuple[str, Path]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        need_folder(self.folder, "masks")
        longest_first = sorted(self.stems, key=len, reverse=True)  # cat-two-eye.png is cat-two's, not cat's
        for path in pictures(self.folder):
            owner = next((stem for stem in longest_first if path.stem.startswith(f"{stem}-")), None)
            if owner is not None:
                self._of.setdefault(owner, []).append((path.stem[len(owner) + 1 :], path))

    @property
    def inputs(self) -> tuple[Path, ...]:
        return (self.folder,)

    def objects(self, content: Path, size: tuple[int, int]) -> Objects:
        masks = self._of.get(content.stem, [])
        if not masks:
            raise InputError(f"{content}: no mask {content.stem}-REGION.png in {self.folder}")
        found = []
        for name, path in masks:
            mask = match_size(read_mask(path), size, str(path), "the photo") >= 0.5
            if name.lower() != BACKGROUND and mask.mean() < WHOLE:
                found.append(Found(name, mask))
        return Objects(found, apart)


@dataclass
class LabelSource:
    """Label maps NAME.png, .npy or .mat (as BSDS has them), a number or a colour for each region; 0 and black
    are no object.
    """

    folder: Path
    kind = "labels"
    unannotated = "background"
    notes: tuple[str, ...] = ("label 0 (black) is background and never an object",)

    def __post_init__(self) -> None:
        need_folder(self.folder, "label maps")

    @property
    def inputs(self) -> tuple[Path, ...]:
        return (self.folder,)

    def objects(self, content: Path, size: tuple[int, int]) -> Objects:
        labels = labels_of(self.folder, content, size)
        values, counts = np.unique(labels, return_counts=True)
        least = SMALLEST_SHARE * labels.size  # a map with soft edges has thousands of tiny labels
        found = [
            Found(f"label-{value}", labels == value)
            for value, count in zip(values, counts, strict=True)
            if value and count >= least
        ]
        return Objects(found, layered)


def labels_of(folder: Path, content: Path, size: tuple[int, int]) -> np.ndarray:
    """int (h, w) at (w, h) of the photo: the label map of its name."""
    candidates = [folder / f"{content.stem}{suffix}" for suffix in SUFFIXES]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise InputError(f"{content}: no label map {content.stem}.png in {folder} (nor .npy, .mat, .tif)")
    return at_size(read_labels(path), size, str(path))


def need_folder(folder: Path, what: str) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of the {what}")
    return folder


def pictures(folder: Path, deep: bool = False) -> list[Path]:
    """The picture files of a folder (and those below it), hidden ones left out, in the order of their names
    on every file system.
    """
    found = folder.rglob("*") if deep else folder.iterdir()
    kept = [
        path
        for path in found
        if path.suffix.lower() in PICTURES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    return sorted(kept, key=lambda path: path.relative_to(folder).as_posix())
