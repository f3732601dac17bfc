"""The paper's data set (Sec. 4.1): every N-tuple of styles with every photo, each photo in N regions.

Styles are put in the order of sha256("SEED:" + sha256 of the file), which depends on no file's name, no
folder's order and no version of anything, and are cut into tuples of N neighbours; region i of a photo gets
style i of the tuple. What does not fill a last tuple is left out and said so. 20 photos and 360 styles give
3,600, 2,400, 1,800 and 1,440 samples for N = 2, 3, 4, 5.

All is read and checked first; then a folder is written beside the wanted one and takes its name when whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ...files import new_folder, sha256
from ...images import centre_square, read_rgb, squared
from ...job import InputError
from ...regions.partition import Tiling
from ...regions.sources import ObjectSource
from ...sheets import Tile, overlay, sheet
from .manifest import FILE_NAME, BenchRegion, BenchSample, File, Header, Manifest, OnCount, read, write

MOST_REGIONS = 16
ON_SHEET = 60  # photos shown on the contact sheet
THUMBNAIL = 160
PHOTOS = "photos"  # the folder of squares


@dataclass
class DividedPhoto:
    """A photo and its partitions: for each N the names of its regions and their masks as PNG files.

    cut: the photo's square as a PNG file, where it was cut; content is then that file.
    """

    slug: str
    content: File
    names: dict[int, tuple[str, ...]]
    masks: dict[int, list[bytes]]
    row: list[Tile]
    cut: bytes | None = None


def make(
    folder: Path,
    contents: Sequence[Path],
    styles: Sequence[Path],
    source: ObjectSource,
    n: Sequence[int],
    *,
    seed: int = 0,
    max_styles: int | None = None,
    square: bool = False,
    skip_small: bool = False,
    overwrite: bool = False,
    on_count: OnCount | None = None,
) -> Manifest:
    """Builds the benchmark in `folder`: manifest.jsonl, masks/, and masks.png to look at.

    square: photos are cut down to their centre squares, in photos/, and their objects with them: regions are
    chosen by what is seen of them there. Otherwise photos stay where they are, as they are.
    Every photo without enough objects for some N, and every file that is missing or damaged, is named in one
    error before anything is written; `skip_small` leaves photos out of an N they have too few objects for.
    """
    tell = on_count or (lambda stage, done, total: None)
    wanted = sorted(set(n))
    if not wanted or wanted[0] < 2 or wanted[-1] > MOST_REGIONS:
        raise InputError(f"-n {','.join(map(str, n))}: give numbers of regions from 2 to {MOST_REGIONS}")
    check_folder(folder, overwrite, [*contents, *styles, *source.inputs])
    problems: list[str] = []
    ordered, repeated = _in_order(styles, seed, problems, tell)
    ordered = ordered if max_styles is None else ordered[:max_styles]
    if not problems and len(ordered) < wanted[-1]:
        problems.append(f"{len(ordered)} styles do not make one tuple of {wanted[-1]}")
    target = Path(os.path.abspath(folder))
    place = target / PHOTOS if square else None
    divided, skipped = _divide(contents, source, wanted, problems, skip_small, tell, place)
    empty = [k for k in wanted if skip_small and not any(k in photo.names for photo in divided)]
    if empty and not problems:
        problems.append(f"no photo has objects enough for N = {', '.join(map(str, empty))}")
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise InputError(f"{folder}: nothing was made, because of {len(problems)} problems:{listed}")
    notes = [
        *source.notes,
        f"styles are ordered by sha256('{seed}:' + sha256 of the file) and cut into tuples of neighbours",
        "regions are listed from the largest object to the smallest, the background last",
        *(["photos and objects were cut down to the photos' centre squares"] if square else []),
        *repeated,
        *skipped,
    ]
    for k in wanted:
        if len(ordered) % k:
            notes.append(f"N = {k}: {len(ordered) % k} styles of {len(ordered)} are left over and not used")
    header = Header(
        seed, tuple(wanted), len(divided), len(ordered), source.unannotated, source.kind, tuple(notes)
    )
    samples = tuple(
        sample
        for k in wanted
        for sample in _samples(k, [p for p in divided if k in p.names], ordered, target)
    )
    manifest = Manifest(target / FILE_NAME, header, samples)
    with new_folder(target) as part:
        (part / "masks").mkdir()
        if square:
            (part / PHOTOS).mkdir()
        for photo in divided:
            if photo.cut is not None:
                (part / PHOTOS / photo.content.path.name).write_bytes(photo.cut)
            for k, masks in photo.masks.items():
                for i, data in enumerate(masks):
                    (part / "masks" / mask_name(photo.slug, k, i)).write_bytes(data)
        sheet([photo.row for photo in divided if photo.row], THUMBNAIL).save(part / "masks.png")
        write(manifest, part / FILE_NAME)
    return read(target)


# ------------------------------------------------------------------------------------------------ reading


def _in_order(
    styles: Sequence[Path], seed: int, problems: list[str], tell: OnCount
) -> tuple[list[File], list[str]]:
    """The styles that can be read, in the seed's order, and a note where two are the same picture."""
    found: list[File] = []
    for i, path in enumerate(styles):
        try:
            read_rgb(path, "style")
            found.append(File(Path(os.path.abspath(path)), sha256(path)))
        except (InputError, OSError) as error:
            problems.append(str(error))
        tell("styles", i + 1, len(styles))
    twice = [hashed for hashed, times in Counter(file.sha256 for file in found).items() if times > 1]
    names = [", ".join(file.path.name for file in found if file.sha256 == hashed) for hashed in twice]
    notes = [f"the same picture more than once among the styles: {name}" for name in names]
    key = lambda file: (hashlib.sha256(f"{seed}:{file.sha256}".encode()).hexdigest(), file.path.name)
    return sorted(found, key=key), notes


def _divide(
    contents: Sequence[Path],
    source: ObjectSource,
    wanted: Sequence[int],
    problems: list[str],
    skip_small: bool,
    tell: OnCount,
    cut_to: Path | None,
) -> tuple[list[DividedPhoto], list[str]]:
    """Every photo's partitions, and notes on the photos that drop out of an N. cut_to: the folder that the
    photos' squares will be in; None leaves the photos as they are.
    """
    slugs = slugs_of(contents, problems)
    divided: list[DividedPhoto] = []
    dropped: dict[int, list[str]] = {}
    for i, path in enumerate(contents):
        try:
            photo = read_rgb(path, "photo")
            objects = source.objects(path, photo.size)
            if cut_to is not None:
                objects, photo = objects.cropped(centre_square(photo.size)), squared(photo)
            made = {k: objects.partition(k) for k in wanted}
        except (InputError, OSError) as error:
            problems.append(str(error))
            continue
        finally:
            tell("photos", i + 1, len(contents))
        lacking = [k for k, partition in made.items() if partition is None]
        for k in lacking:
            dropped.setdefault(k, []).append(path.name)
        if lacking and not skip_small:
            problems.append(
                f"{path}: its {objects.large()} objects of at least 1/1024 of the photo do not make "
                f"{' or '.join(map(str, lacking))} separate regions of that size with a background; "
                f"--skip-small leaves it out of N = {', '.join(map(str, lacking))}"
            )
        whole = {k: partition for k, partition in made.items() if partition is not None}
        if whole:
            cut = None if cut_to is None else _png(photo)
            file = (
                File(Path(os.path.abspath(path)), sha256(path))
                if cut is None or cut_to is None
                else File(cut_to / f"{slugs[path]}.png", hashlib.sha256(cut).hexdigest())
            )
            names = {k: partition.names for k, partition in whole.items()}
            masks = {
                k: [_png(Image.fromarray(mask.astype(np.uint8) * 255)) for mask in partition.masks()]
                for k, partition in whole.items()
            }
            row = _row(path, photo, whole) if len(divided) < ON_SHEET else []
            divided.append(DividedPhoto(slugs[path], file, names, masks, row, cut))
    notes = [
        f"N = {k}: {len(names)} photos have too few objects and are left out: {', '.join(names)}"
        for k, names in sorted(dropped.items())
    ]
    return divided, notes


def slugs_of(contents: Sequence[Path], problems: list[str]) -> dict[Path, str]:
    """A name for each photo that is safe in a file's name; photos that differ in nothing but their suffix
    are a problem, because masks could not be told apart.
    """
    by_stem: dict[str, Path] = {}
    slugs: dict[Path, str] = {}
    for path in contents:
        if path.stem in by_stem:
            problems.append(f"{path}: has the same name as {by_stem[path.stem].name}; rename one of them")
        by_stem.setdefault(path.stem, path)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem)[:100].strip(".") or "photo"
        slug, count = plain, 2
        while slug.casefold() in {used.casefold() for used in slugs.values()}:
            slug, count = f"{plain}-{count}", count + 1
        slugs[path] = slug
    return slugs


def _row(path: Path, photo: Image.Image, partitions: dict[int, Tiling]) -> list[Tile]:
    """The photo and its regions for each N, small."""
    width = max(1, round(photo.width * THUMBNAIL / photo.height))
    small = photo.resize((width, THUMBNAIL), Image.Resampling.LANCZOS)
    cells = [Tile(small, path.stem)]
    for k, partition in partitions.items():
        regions = Image.fromarray(partition.regions).resize(small.size, Image.Resampling.NEAREST)
        masks = (np.asarray(regions)[None] == np.arange(k)[:, None, None]).astype(np.float32)
        cells.append(Tile(overlay(small, masks), f"N = {k}: {', '.join(partition.names)}"))
    return cells


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


# ------------------------------------------------------------------------------------------------ samples


def _samples(
    k: int, photos: Sequence[DividedPhoto], styles: Sequence[File], target: Path
) -> list[BenchSample]:
    """Every tuple of k styles with every photo that has k regions."""
    masks = {
        photo.slug: [
            File(target / "masks" / mask_name(photo.slug, k, i), hashlib.sha256(data).hexdigest())
            for i, data in enumerate(photo.masks[k])
        ]
        for photo in photos
    }
    samples = []
    for t in range(len(styles) // k):
        group = styles[t * k : (t + 1) * k]
        for photo in photos:
            regions = zip(photo.names[k], masks[photo.slug], group, strict=True)
            samples.append(
                BenchSample(
                    f"n{k}-t{t:03d}-{photo.slug}",
                    k,
                    t,
                    photo.content,
                    tuple(BenchRegion(*r) for r in regions),
                )
            )
    return samples


def mask_name(slug: str, n: int, index: int) -> str:
    return f"{slug}-n{n}-{index + 1}.png"


# ------------------------------------------------------------------------------------------


OWN = {FILE_NAME, "masks", "masks.png", PHOTOS}  # all that a benchmark's folder holds


def check_folder(folder: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    """Refuses a folder that is in use. With `overwrite` a benchmark is replaced, and nothing but one."""
    if folder.is_file():
        raise InputError(f"{folder}: this is a file; give a folder for the benchmark")
    parent = Path(os.path.abspath(folder)).parent
    if not parent.is_dir():
        raise InputError(f"{parent}: no such folder; create it first (mkdir -p {parent})")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{folder}: exists already and is kept; add --overwrite or choose another name")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in OWN)
    if foreign:
        raise InputError(
            f"{folder}: not replaced, because it holds more than a benchmark ({', '.join(foreign[:5])}); "
            "choose another name"
        )
    if not (folder / FILE_NAME).is_file():
        raise InputError(f"{folder}: not replaced, because it is no benchmark; choose another name")
    home = Path(os.path.abspath(folder))
    if any(Path(os.path.abspath(path)).is_relative_to(home) for path in inputs):
        raise InputError(f"{folder}: not replaced, because the new one is made from it; choose another name")
