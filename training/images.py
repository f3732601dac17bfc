"""Training pictures: all in a folder, at any depth, plain or inside .tar archives, decoded in memory."""

import io
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
SHORT_SIDE = 288  # decoded pictures stay in memory


def load_images(folder: Path, short_side: int = SHORT_SIDE, smallest: int = 128) -> list[np.ndarray]:
    """All pictures below `folder`, uint8 (h, w, 3): short side at most `short_side`, at least `smallest`."""
    images = [np.asarray(fit(image, short_side, smallest)) for _, image in read_images(folder)]
    if not images:
        raise FileNotFoundError(
            f"no pictures in {folder}: it needs {', '.join(sorted(SUFFIXES))} files, or .tar archives of them"
        )
    return images


def read_images(folder: Path) -> Iterator[tuple[str, Image.Image]]:
    """(name, RGB picture) of every readable picture; damaged ones are left out with a warning."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            yield from decode(str(path), path.read_bytes())
        elif path.suffix.lower() == ".tar" and path.is_file():
            yield from read_archive(path)


def read_archive(path: Path) -> Iterator[tuple[str, Image.Image]]:
    """The same for one .tar archive; what comes before a damaged place in the archive is still used."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if Path(member.name).suffix.lower() in SUFFIXES else None
                if file is not None:
                    yield from decode(f"{path}:{member.name}", file.read())
    except (tarfile.TarError, OSError) as error:
        warnings.warn(f"{path} is damaged, the rest of it is left out: {error}", stacklevel=2)


def decode(name: str, data: bytes) -> Iterator[tuple[str, Image.Image]]:
    """One picture, or none and a warning. Every format fails in its own way, hence the wide net."""
    try:
        picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    except Exception as error:
        warnings.warn(f"{name} is left out: {error}", stacklevel=2)
    else:
        yield name, picture


def fit(image: Image.Image, short_side: int, smallest: int) -> Image.Image:
    """Shrinks to a short side of at most `short_side`, enlarges to at least `smallest`."""
    short = min(image.size)
    target = min(max(short, smallest), short_side)
    if target == short:
        return image
    width, height = (max(target, round(side * target / short)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def random_crop(image: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A square crop (size, size, 3), mirrored half of the time. Smaller pictures are enlarged first."""
    if min(image.shape[:2]) < size:
        image = np.asarray(fit(Image.fromarray(image), size, size))
    y, x = (rng.integers(0, side - size + 1) for side in image.shape[:2])
    crop = image[y : y + size, x : x + size]
    return crop[:, ::-1] if rng.random() < 0.5 else crop


def centre_crop(image: Image.Image, size: int) -> np.ndarray:
    """The middle of a picture (size, size, 3), as large a part of it as a square can hold."""
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS))


def to_tensor(crops: Sequence[np.ndarray]) -> Tensor:
    """uint8 crops (h, w, 3) -> float images (b, 3, h, w) in [-1, 1]."""
    return torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float().div(127.5).sub(1)
