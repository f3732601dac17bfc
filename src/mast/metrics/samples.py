"""What is evaluated: results, the photo each was made from, and the style and mask of each of its regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.masks import separate
from ..images import OUTPUTS, centre_square, read_mask, read_provenance
from ..job import InputError, Region
from ..pipeline.provenance import job_from
from ..regions.masks import match_size, region_name
from ..regions.sources import pictures

LISTED = 3  # pictures without a record that a note names


@dataclass(frozen=True)
class Looked:
    """A picture that a network looks at: its file, or only the centre square of it."""

    path: Path
    square: bool = False


@dataclass(frozen=True)
class EvaluatedPicture:
    """One result. `regions` is empty when its styles are not known.

    square: it was made from the centre squares of its photo, masks and styles (fit = "square"), and these are
    what it is compared with.
    """

    name: str
    stylized: Path
    content: Path
    regions: tuple[Region, ...] = ()
    square: bool = False

    @property
    def styles(self) -> tuple[Looked, ...]:
        """Of each region."""
        return tuple(Looked(Path(str(region.style)), self.square) for region in self.regions)


@dataclass
class Collection:
    """What was found: samples, styles that belong to none of them, problems by file, what to say of it."""

    samples: list[EvaluatedPicture] = field(default_factory=list)
    styles: list[Path] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def from_results(folder: Path) -> Collection:
    """A folder (and its subfolders) of pictures that carry mast's record, inside or in a JSON beside them."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that holds the results")
    found = Collection()
    # A name that begins with a dot is a picture somebody is still writing, or was killed while writing.
    results = [path for path in pictures(folder, deep=True) if path.suffix.lower() in OUTPUTS]
    others = []
    for path in results:
        try:
            record = read_record(path)
            if record is None:
                others.append(str(path))
                continue
            job = job_from(record, path.parent)
            square = record.get("settings", {}).get("fit") == "square"
        except InputError as error:
            found.problems[str(path)] = str(error)
            continue
        except (KeyError, TypeError, AttributeError, ValueError):
            found.problems[str(path)] = f"{path}: its record is damaged; make it again, or take it away"
            continue
        inside = path.relative_to(folder)
        name = str(inside.with_suffix("") if path.suffix.lower() == ".png" else inside)
        found.samples.append(EvaluatedPicture(name, path, Path(str(job.content)), job.regions, square))
    if others:
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        found.notes.append(
            f"{', '.join(others[:LISTED])}{more}: without a record of how it was made, so not a result"
        )
    have = {path.with_suffix("") for path in results}
    for path in sorted(folder.rglob("*.json")):
        if path.with_suffix("") not in have and _sidecar(path) is not None:
            found.problems[str(path)] = f"{path.with_suffix('.png')}: the picture of this record is missing"
    masked = sum(region.style_mask is not None for sample in found.samples for region in sample.regions)
    if masked:
        found.notes.append(
            f"{masked} regions took only a part of their painting; they are compared with all of it"
        )
    if not found.samples and not found.problems:
        raise InputError(
            f"{folder}: no result with its record in it; give a folder that mast wrote, "
            "or --stylized and --content"
        )
    return found


def read_record(picture: Path) -> dict[str, Any] | None:
    """How a picture was made, from the JSON beside it or from inside it; None for one that does not say.

    A picture that cannot be read, or whose own record is damaged, is an InputError.
    """
    beside = _sidecar(picture.with_suffix(".json"))
    if beside is not None:
        return beside
    try:
        return read_provenance(picture)
    except InputError as error:
        if "carries no record" in str(error):
            return None
        raise


def _sidecar(path: Path) -> dict[str, Any] | None:
    """The record in a JSON file; None where there is no such file, or it is something else."""
    try:
        return read_provenance(path) if path.is_file() else None
    except (InputError, OSError, UnicodeDecodeError):
        return None


def from_folders(
    stylized: Path, content: Path, styles: Path | None = None, masks: Path | None = None
) -> Collection:
    """Folders whose names belong together.

    stylized/NAME.png goes with content/NAME.*, with the styles styles/NAME.*, styles/NAME-*.* or
    styles/NAME/*, in the order of their names, and with the masks named the same way. Mask i belongs to style
    i; one mask fewer than styles leaves the rest of the picture to the last style. When no style has a
    result's name, the folder is the set that FID compares with, and nothing is known of regions.
    """
    for folder in (stylized, content, styles, masks):
        if folder is not None and not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
    found = Collection()
    results = pictures(stylized)
    if not results:
        raise InputError(f"{stylized}: no pictures in it")
    photos = {path.stem: path for path in pictures(content)}
    named = styles is not None and any(_of(styles, result.stem) for result in results)
    if styles is not None and not named:
        found.styles = pictures(styles)
        found.notes.append(
            f"{styles}: no file is named after a result; FID compares with all {len(found.styles)} styles"
        )
        if masks is not None:
            found.notes.append(f"{masks}: not used, because it is not known which style a mask belongs to")
    for result in results:
        if result.stem not in photos:
            found.problems[str(result)] = f"{content}: no photo called {result.stem}.*"
            continue
        try:
            regions = _regions(result.stem, styles, masks) if named and styles is not None else ()
        except InputError as error:
            found.problems[str(result)] = str(error)
            continue
        found.samples.append(EvaluatedPicture(result.stem, result, photos[result.stem], regions))
    return found


def _regions(name: str, styles: Path, masks: Path | None) -> tuple[Region, ...]:
    paintings = _of(styles, name)
    if not paintings:
        raise InputError(f"{styles}: no style called {name}.*, {name}-*.* or in a folder {name}/")
    areas: Sequence[Path | None] = _of(masks, name) if masks is not None else []
    if len(areas) == len(paintings) - 1:
        areas = [*areas, None]
    if len(areas) != len(paintings):
        raise InputError(
            f"{masks or 'no --masks'}: {len(areas)} masks for the {len(paintings)} styles of {name}; "
            "give one a style"
        )
    return tuple(Region(style, mask) for style, mask in zip(paintings, areas, strict=True))


def _of(folder: Path, name: str) -> list[Path]:
    if (folder / name).is_dir():
        return pictures(folder / name)
    found = [path for path in pictures(folder) if path.stem == name or path.stem.rpartition("-")[0] == name]
    return sorted(found, key=lambda path: (path.stem != name, path.name))


def read_regions(sample: EvaluatedPicture, size: tuple[int, int], notes: list[str]) -> Tensor:
    """(N, H, W) at (W, H) of the photo, or its centre square: the sample's masks, freed of overlap, what is
    left over filled in; some empty.
    """
    masks: list[Tensor | None] = []
    for i, region in enumerate(sample.regions):
        if region.mask is None:
            masks.append(None)
            continue
        name = f"{sample.name}, {region_name(region, i)}"
        masks.append(torch.from_numpy(match_size(read_mask(region.mask), size, name, "the photo")))
    if sum(mask is None for mask in masks) > 1:
        raise InputError(f"{sample.name}: more than one region without a mask; give the others one")
    given = [mask for mask in masks if mask is not None]
    separated, overlap = separate(torch.stack(given)) if given else (torch.zeros(0, size[1], size[0]), 0.0)
    if overlap:
        notes.append(
            f"{sample.name}: masks overlap on {overlap:.1%} of the photo; there each counts by its share"
        )
    rest = (1 - separated.sum(0)).clamp(0, 1)
    parts = iter(separated)
    whole = torch.stack([rest if mask is None else next(parts) for mask in masks])
    left, upper, right, lower = centre_square(size) if sample.square else (0, 0, *size)
    return whole[:, upper:lower, left:right]
