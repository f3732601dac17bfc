"""Features and distances of files, computed once: kept on disk under the hash of what they were made from."""

from __future__ import annotations

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..features.cache import Cache
from ..files import sha256
from ..images import read_rgb, squared
from ..job import InputError, Region
from ..regions.parts import split_part
from .inception import InceptionEncoder
from .regional import region_weights
from .samples import EvaluatedPicture, Looked, read_regions

KIND = "metrics"
OnCount: TypeAlias = Callable[[str, int, int], None]  # stage, done, total
Distance: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # results, photos (b, 3, h, w) in [0, 1] -> (b,)
HELD = 64  # feature maps kept in memory
SMALLEST = 32  # pixels a side that survive AlexNet


class Store:
    """All that the metrics read from files goes through here. Without a cache it lives for one evaluation."""

    def __init__(self, cache: Cache | None = None, batch: int = 8):
        self._own = None if cache is not None else tempfile.TemporaryDirectory(prefix="mast-metrics-")
        self.cache = cache or Cache(Path(self._own.name) if self._own else None)
        self.batch = batch
        self.problems: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._held: OrderedDict[str, Tensor] = OrderedDict()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.cleanup()

    def hash(self, path: Path | str) -> str:
        """sha256 of a file; one that is missing or cannot be read becomes a problem."""
        name = str(path)
        if name not in self._hashes:
            try:
                self._hashes[name] = sha256(name)
            except OSError as error:
                raise InputError(f"{name}: cannot be read ({error.strerror})") from error
        return self._hashes[name]

    # ---------------------------------------------------------------------------------------- feature maps

    def extract(self, encoder: InceptionEncoder, pictures: Sequence[Looked], on_count: OnCount) -> None:
        """Computes, in batches, the maps that are missing. Files that cannot be read go to `problems`."""
        pictures = list(dict.fromkeys(pictures))
        waiting: dict[str, Tensor] = {}
        for i, picture in enumerate(pictures):
            try:
                key = self._map_key(encoder, picture)
                if key not in waiting and self.cache.find(KIND, key) is None:
                    waiting[key] = to_levels(_seen(picture))
            except InputError as error:
                self.problems[str(picture.path)] = str(error)
            if len(waiting) >= self.batch or (waiting and i + 1 == len(pictures)):
                maps = encoder.maps(list(waiting.values()))
                for key, features in zip(waiting, maps, strict=True):
                    self.cache.write(KIND, key, {"map": features})
                waiting = {}
            on_count("features", i + 1, len(pictures))

    def map(self, encoder: InceptionEncoder, picture: Looked) -> Tensor:
        """(cells, 2048) of a picture; made again when the cache has dropped it meanwhile."""
        key = self._map_key(encoder, picture)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        kept = self.cache.read(KIND, key)
        features = kept["map"] if kept else encoder.maps([to_levels(_seen(picture))])[0]
        self._held[key] = features
        if len(self._held) > HELD:
            self._held.popitem(last=False)
        return features

    def _map_key(self, encoder: InceptionEncoder, picture: Looked) -> str:
        part = ("square",) if picture.square else ()
        return _key("map", encoder.name, encoder.fingerprint, encoder.size, self.hash(picture.path), *part)

    # ---------------------------------------------------------------------------------------- regions

    def weights(self, sample: EvaluatedPicture, grid: tuple[int, int], notes: list[str]) -> Tensor:
        """(regions, cells): the sample's masks on the feature grid."""
        with Image.open(sample.content) as photo:
            size = photo.size[::-1] if photo.getexif().get(0x0112, 1) >= 5 else photo.size
        part = ("square",) if sample.square else ()
        key = _key("regions", grid, size, [self._mask_name(region) for region in sample.regions], *part)
        kept = self.cache.read(KIND, key)
        if kept is not None:
            return kept["weights"]
        said = len(notes)
        weights = region_weights(read_regions(sample, size, notes), grid)
        if len(notes) == said:  # what has something to be said about it is read again, and said again
            self.cache.write(KIND, key, {"weights": weights})
        return weights

    def _mask_name(self, region: Region) -> str | None:
        if region.mask is None:
            return None
        path, part = split_part(region.mask)  # type: ignore[arg-type]
        return f"{self.hash(path)} {part}"

    # ---------------------------------------------------------------------------------------- distances

    def distances(
        self,
        name: str,
        distance: Distance,
        samples: Sequence[EvaluatedPicture],
        size: int | None,
        on_count: OnCount,
    ) -> dict[str, float]:
        """Each result's distance from its photo, by sample name. `name`: what measures, by which weights."""
        values: dict[str, float] = {}
        waiting: list[tuple[EvaluatedPicture, str, Tensor, Tensor]] = []

        def flush() -> None:
            if waiting:
                results, photos = torch.stack([w[2] for w in waiting]), torch.stack([w[3] for w in waiting])
                for (sample, key, _, _), value in zip(waiting, distance(results, photos), strict=True):
                    values[sample.name] = float(value)
                    self.cache.write(KIND, key, {"value": value.reshape(1)})
                waiting.clear()

        for i, sample in enumerate(samples):
            try:
                part = ("square",) if sample.square else ()
                pair = self.hash(sample.stylized), self.hash(sample.content)
                key = _key("distance", name, size, *pair, *part)
                kept = self.cache.read(KIND, key)
                if kept is not None:
                    values[sample.name] = float(kept["value"])
                else:
                    result, photo = read_pair(sample, size)
                    if waiting and (waiting[-1][2].shape != result.shape or len(waiting) >= self.batch):
                        flush()
                    waiting.append((sample, key, result, photo))
            except InputError as error:
                self.problems[sample.name] = str(error)
            on_count(name.split()[0], i + 1, len(samples))
        flush()
        return values


def read_pair(sample: EvaluatedPicture, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Result and photo, or its centre square, (3, h, w) in [0, 1], at the result's size or with the longer
    side `size`.
    """
    result, photo = read_rgb(sample.stylized, "result"), read_rgb(sample.content, "photo")
    photo = squared(photo) if sample.square else photo
    if abs((result.width / result.height) / (photo.width / photo.height) - 1) > 0.05:
        raise InputError(
            f"{sample.stylized}: {result.width}x{result.height} has another shape than its photo "
            f"({photo.width}x{photo.height}), so they cannot be compared"
        )
    wanted = result.size
    if size is not None:
        scale = size / max(wanted)
        wanted = (max(1, round(wanted[0] * scale)), max(1, round(wanted[1] * scale)))
    if min(wanted) < SMALLEST:
        raise InputError(
            f"{sample.stylized}: {wanted[0]}x{wanted[1]} is too small to compare; "
            f"LPIPS needs {SMALLEST} pixels a side"
        )
    pair = [p if p.size == wanted else p.resize(wanted, Image.Resampling.LANCZOS) for p in (result, photo)]
    return to_levels(pair[0]) / 255, to_levels(pair[1]) / 255


def _seen(picture: Looked) -> Image.Image:
    image = read_rgb(picture.path)
    return squared(image) if picture.square else image


def to_levels(image: Image.Image) -> Tensor:
    """RGB -> (3, h, w) float32 in 0..255."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float()


def _key(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
