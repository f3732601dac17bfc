"""In which order to make the pictures, so that hardly any inversion is made twice.

A sample needs the features of one photo and of its N styles. They come from mast's cache, which forgets what
was used longest ago when it is full (6 GB). In the paper's protocol every tuple of styles meets every photo:
20 photos, 360 styles. Photo by photo, 360 styles pass by before the first one comes back: at 512 px and 12
steps the embedded model keeps 54 MB for a style, 19 GB for all, so each style would be inverted 20 times.
Tuple by tuple, the 20 photos come back all the time (114 MB each, 2.3 GB), and a style is needed for 20
samples in a row and then never again: each picture is inverted once. So the order goes along whichever there
are fewer of: the others are finished one after the other.

Every second row runs backwards: when even the few do not all fit, the last ones used are the next ones
needed, where a plain cycle would always ask for what has just been forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...job import InputError
from ..data.manifest import BenchSample

SampleRow: TypeAlias = list[BenchSample]


def rows(samples: Sequence[BenchSample]) -> list[SampleRow]:
    """The samples in the order to make them; a row shares its tuple of styles (or its photo)."""
    contents = {sample.content.sha256 for sample in samples}
    styles = {region.style.sha256 for sample in samples for region in sample.regions}
    found: dict[tuple[str, ...], SampleRow] = {}
    for sample in samples:
        tuple_of_styles = tuple(sorted(region.style.sha256 for region in sample.regions))
        key = tuple_of_styles if len(contents) <= len(styles) else (sample.content.sha256,)
        found.setdefault(key, []).append(sample)
    return [row[::-1] if i % 2 else row for i, row in enumerate(found.values())]


def parse_shard(text: str) -> tuple[int, int]:
    """(i, k) of "i/k": the i-th of k parts, counted from 1."""
    first, _, last = text.partition("/")
    try:
        i, k = int(first), int(last)
    except ValueError:
        i, k = 0, 0
    if not 1 <= i <= k:
        raise InputError(f"--shard {text}: write i/k, the i-th of k parts, from 1/k to k/k")
    return i, k


def select(
    samples: Sequence[BenchSample], shard: tuple[int, int] = (1, 1), limit: int | None = None
) -> list[BenchSample]:
    """One part of the samples in their order: stretches, so that a shard's styles are its own."""
    ordered = [sample for row in rows(samples) for sample in row]
    i, k = shard
    part = ordered[len(ordered) * (i - 1) // k : len(ordered) * i // k]
    return part if limit is None else part[:limit]


def split(ordered: Sequence[BenchSample], workers: int) -> list[list[BenchSample]]:
    """A stretch of the order for each worker.

    Each begins with other photos than the rest, so that they do not all invert the same photo at the same
    time at the beginning.
    """
    parts = []
    photos = len({sample.content.sha256 for sample in ordered})
    for worker in range(workers):
        part = list(ordered[len(ordered) * worker // workers : len(ordered) * (worker + 1) // workers])
        turn = min(photos, len(part)) * worker // workers
        parts.append(part[turn:] + part[:turn])
    return parts
