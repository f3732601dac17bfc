"""Training pictures: all in a folder, at any depth, plain or inside .tar archives, decoded in memory.

Some pictures of the archives are not trained on: the ones held out, on which a finished model is measured,
and those for validation, which may be looked at while it is trained and chosen. See HELD_OUT.
"""

import io
import tarfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
SHORT_SIDE = 288  # decoded pictures stay in memory
# Of an archive of this name every nth member, counted from 0 in the archive's order, is held out; those
# half-way between are for validation.
HELD_OUT = {"photos": 15, "paintings": 100}
Part = Literal["training", "validation", "held-out"]
GRID = 8  # pixels
ENLARGED = 1.5  # how much a picture may be enlarged for a crop


@dataclass(frozen=True)
class Listed:
    """A picture that can be read: a file, or a part of an archive."""

    path: Path
    member: str = ""
    offset: int = 0
    length: int = -1

    @property
    def name(self) -> str:
        """For messages and captions: archive and member, or the file."""
        return f"{self.path.stem} {Path(self.member).stem}" if self.member else str(self.path)

    @property
    def painting(self) -> bool:
        """Whether the name of its archive, or of its folder or itself, says that it is one: paintings.tar."""
        named = self.path.stem if self.member else f"{self.path.parent.name} {self.path.name}"
        return "paint" in named.lower()

    def read(self) -> Image.Image | None:
        """RGB and upright; None and a warning if it is damaged. Every format fails in its own way."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = io.BytesIO(file.read(self.length))
            return ImageOps.exif_transpose(Image.open(data)).convert("RGB")
        except Exception as error:
            warnings.warn(f"{self.path} {self.member} is left out: {error}", stacklevel=2)
            return None


def list_images(folder: Path, part: Part = "training") -> list[Listed]:
    """All pictures below `folder` that may be trained on; or those for validation, or held out."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    found: list[Listed] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file() and part == "training":
            found.append(Listed(path))
        elif path.suffix.lower() == ".tar" and path.is_file():
            found += [member for number, member in list_archive(path) if part_of(path.stem, number) == part]
    return found


def part_of(archive: str, number: int) -> Part:
    """What the member of this number of an archive of this name is for."""
    every = HELD_OUT.get(archive)
    if every is None or number % every not in (0, every // 2):
        return "training"
    return "held-out" if number % every == 0 else "validation"


def list_archive(path: Path) -> Iterator[tuple[int, Listed]]:
    """The pictures of one .tar archive with the numbers of its members; none after a damaged place in it."""
    try:
        with tarfile.open(path, "r:") as archive:
            for number, member in enumerate(archive):
                if Path(member.name).suffix.lower() in SUFFIXES and member.isfile():
                    yield number, Listed(path, member.name, member.offset_data, member.size)
    except (tarfile.TarError, OSError) as error:
        warnings.warn(f"{path} is damaged, the rest of it is left out: {error}", stacklevel=2)


def load_images(folder: Path, short_side: int = SHORT_SIDE, smallest: int = 128) -> list[np.ndarray]:
    """All readable pictures below `folder` that may be trained on, uint8 (h, w, 3).

    Their short side is at most `short_side`, at least `smallest`.
    """
    return [pixels for pixels, _ in load_labelled(folder, short_side, smallest)]


def load_labelled(
    folder: Path, short_side: int = SHORT_SIDE, smallest: int = 128
) -> list[tuple[np.ndarray, bool]]:
    """As `load_images`, and whether each counts as a painting."""
    read = ((listed.read(), listed.painting) for listed in list_images(folder))
    images = [(np.asarray(fit(picture, short_side, smallest)), kind) for picture, kind in read if picture]
    if not images:
        raise FileNotFoundError(
            f"no pictures in {folder}: it needs {', '.join(sorted(SUFFIXES))} files, or .tar archives of them"
        )
    return images


def fit(image: Image.Image, short_side: int, smallest: int) -> Image.Image:
    """Shrinks to a short side of at most `short_side`, enlarges to at least `smallest`."""
    short = min(image.size)
    target = min(max(short, smallest), short_side)
    if target == short:
        return image
    width, height = (max(target, round(side * target / short)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def large_enough(images: Sequence[np.ndarray], sizes: Sequence[int]) -> Mapping[int, np.ndarray]:
    """By crop size the numbers of the pictures that need not be enlarged too much for it."""
    shorts = np.array([min(image.shape[:2]) for image in images])
    return {size: np.flatnonzero(shorts * ENLARGED >= size) for size in set(sizes)}


def random_crop(image: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A square crop (size, size, 3), mirrored half of the time.

    Smaller pictures are enlarged first, large ones shrunk by chance: brush strokes come in all sizes. One of
    just this size is enlarged, too: the grid of 8 px that JPEG leaves would always lie where ours does.
    """
    short, target = min(image.shape[:2]), 0
    if short < size:
        target = size
    elif short < size + GRID:
        target = int(rng.integers(size + GRID, size + 3 * GRID))
    elif short > SHORT_SIDE:
        target = int(rng.integers(max(size, SHORT_SIDE), short + 1))
    if target:
        image = np.asarray(fit(Image.fromarray(image), target, target))
    y, x = (rng.integers(0, side - size + 1) for side in image.shape[:2])
    crop = image[y : y + size, x : x + size]
    return crop[:, ::-1] if rng.random() < 0.5 else crop


def centre_crop(image: Image.Image, size: int, margin: float = 0.0) -> np.ndarray:
    """The middle of a picture (size, size, 3), as large a part of it as a square can hold.

    margin: the share of the sides that is cut off at each border first.
    """
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS, margin))


def to_tensor(crops: Sequence[np.ndarray]) -> Tensor:
    """uint8 crops (h, w, 3) -> float images (b, 3, h, w) in [-1, 1]."""
    return torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float().div(127.5).sub(1)
