"""From the objects found in a photo to N regions that tile it: N - 1 objects and one background (Sec. 4.1).

A partition is a map (h, w) of region numbers: objects from 0, largest first, and the background last, n - 1.
The background is all that no chosen object covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

SMALLEST_SHARE = 1 / 1024  # of the photo: one cell of the 32x32 grid, the coarsest a style is applied on
OVERLAP = 0.1  # of the smaller mask, that two masks of one photo may share and still be taken together
BACKGROUND = "background"  # the name of what is behind all objects
CONSIDERED = 24  # masks of one photo among which the best set is searched


@dataclass(frozen=True)
class Found:
    """An object's name and its mask, bool (h, w)."""

    name: str
    mask: np.ndarray

    @property
    def area(self) -> int:
        return int(self.mask.sum())


@dataclass(frozen=True)
class NamedMasks:
    """Regions as masks, float32 (n, h, w) from 0 to 1, and their names."""

    names: tuple[str, ...]
    masks: np.ndarray

    @property
    def shares(self) -> list[float]:
        """How much of the photo each covers, from 0 to 1."""
        return [float(mask.mean()) for mask in self.masks]


@dataclass(frozen=True)
class Tiling:
    """regions: uint8 (h, w), the number of each pixel's region; names: of the regions, background last."""

    regions: np.ndarray
    names: tuple[str, ...]

    def masks(self) -> np.ndarray:
        """bool (n, h, w); exactly one is true at every pixel."""
        return self.regions[None] == np.arange(len(self.names))[:, None, None]


def ranked(objects: Sequence[Found]) -> list[Found]:
    """Largest first, without those below SMALLEST_SHARE of the photo; equals keep their order."""
    large = [found for found in objects if found.area >= SMALLEST_SHARE * found.mask.size]
    return sorted(large, key=lambda found: -found.area)


def layered(objects: Sequence[Found], n: int) -> Tiling | None:
    """The N - 1 largest objects by pixel area, the smaller in front of the larger where they overlap.

    An object that would hide a larger one, or the last of the background, below SMALLEST_SHARE is passed
    over: the same thing annotated twice would otherwise make a region without a pixel. None: there are too
    few.
    """
    chosen: list[Found] = []
    regions = None
    for found in ranked(objects):
        if len(chosen) == n - 1:
            break
        attempt = _paint([*chosen, found])
        areas = np.bincount(attempt.ravel(), minlength=len(chosen) + 2)
        if areas.min() >= SMALLEST_SHARE * attempt.size:
            chosen.append(found)
            regions = attempt
    if len(chosen) < n - 1 or regions is None:
        return None
    return Tiling(regions, named(chosen))


def apart(objects: Sequence[Found], n: int) -> Tiling | None:
    """N - 1 masks that hardly overlap and cover most, from masks that may be alternatives to each other.

    A folder may hold a cat, its face and its fur. Two masks that share more than OVERLAP of the smaller are
    alternatives and are not taken together. Of the sets that remain, the one that covers most is taken, to
    the percent; among equals the one whose smallest mask is largest, then the first by name. For N = 2 that
    is the largest mask. What little overlap is left goes to the smaller one. None: there is no such set.
    """
    found = ranked(objects)[:CONSIDERED]
    if len(found) < n - 1:
        return None
    size = found[0].mask.size
    areas = [f.area for f in found]
    shared = [[int((a.mask & b.mask).sum()) for b in found] for a in found]
    best: tuple[tuple[int, int, list[str]], Tiling] | None = None
    for picked in combinations(range(len(found)), n - 1):  # each from large to small
        if any(shared[i][j] > OVERLAP * areas[j] for i, j in combinations(picked, 2)):
            continue
        total = sum(areas[i] for i in picked)
        rank = (-round(100 * total / size), -areas[picked[-1]], [found[i].name for i in picked])
        if best is not None and rank >= best[0]:
            continue
        chosen = [found[i] for i in picked]
        regions = _paint(chosen)
        if np.bincount(regions.ravel(), minlength=n).min() >= SMALLEST_SHARE * size:
            best = (rank, Tiling(regions, named(chosen)))
    return best[1] if best is not None else None


def filled(partition: Tiling, free: np.ndarray, segments: np.ndarray) -> Tiling:
    """Gives pixels that no annotation covers to the region their segment mostly lies in.

    free: bool (h, w), the unannotated pixels; segments: int (h, w), 0 where there is no segment. All pixels
    of a segment vote, unannotated ones for the background, so that a sky which touches a roof stays sky.
    """
    n = len(partition.names)
    values, inverse = np.unique(segments, return_inverse=True)
    number = inverse.reshape(segments.shape)
    size = len(values) * n
    votes = np.bincount((number * n + partition.regions).ravel(), minlength=size).reshape(-1, n)
    winner = np.where(votes.max(1) > votes[:, n - 1], votes.argmax(1), n - 1)
    winner[values == 0] = n - 1
    regions = np.where(free, winner[number], partition.regions).astype(np.uint8)
    return Tiling(regions, partition.names)


def named(objects: Sequence[Found]) -> tuple[str, ...]:
    """The objects' names, each once: person, person-2; the background last."""
    return (*distinct_names([found.name for found in objects], (BACKGROUND,)), BACKGROUND)


def distinct_names(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """The same names with a number behind those that were there before."""
    made: list[str] = []
    for wanted in names:
        name, count = wanted, 2
        while name in made or name in taken:
            name, count = f"{wanted}-{count}", count + 1
        made.append(name)
    return made


def _paint(objects: Sequence[Found]) -> np.ndarray:
    """uint8 (h, w): each object's number, later ones over earlier ones; the background has the last."""
    regions = np.full(objects[0].mask.shape, len(objects), np.uint8)
    for i, found in enumerate(objects):
        regions[found.mask] = i
    return regions


# ------------------------------------------------------------ agreement


def covering(found: np.ndarray, truth: np.ndarray) -> float:
    """How well the regions of one map of numbers (h, w) cover those of another, from 0 to 1 (Arbelaez et al.
    2011): of every true region the overlap (intersection over union) with the found one that fits it best,
    weighted by its size.
    """
    _, found = np.unique(found, return_inverse=True)
    _, truth = np.unique(truth, return_inverse=True)
    shared = np.zeros((truth.max() + 1, found.max() + 1))
    np.add.at(shared, (truth.ravel(), found.ravel()), 1)
    sizes, others = shared.sum(1), shared.sum(0)
    overlap = shared / (sizes[:, None] + others[None] - shared)
    return float((sizes * overlap.max(1)).sum() / sizes.sum())


def boundary_recall(found: np.ndarray, truth: np.ndarray, tolerance: int) -> float:
    """The share of the true borders, in maps of numbers (h, w), that a found one is near to: within so many
    pixels along rows and columns.
    """
    drawn, near = borders(truth), borders(found)
    for _ in range(tolerance):
        wider = near.copy()
        wider[1:] |= near[:-1]
        wider[:-1] |= near[1:]
        near = wider.copy()
        near[:, 1:] |= wider[:, :-1]
        near[:, :-1] |= wider[:, 1:]
    return float((drawn & near).sum() / max(1, drawn.sum()))


def borders(labels: np.ndarray) -> np.ndarray:
    """bool (h, w): the pixels whose upper or left neighbour has another number."""
    found = np.zeros(labels.shape, bool)
    found[1:] |= labels[1:] != labels[:-1]
    found[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    return found


def interior(labels: np.ndarray) -> np.ndarray:
    """bool (h, w): the pixels whose four neighbours have their own number; thin strips have none."""
    found = np.ones(labels.shape, bool)
    down, right = labels[1:] == labels[:-1], labels[:, 1:] == labels[:, :-1]
    found[1:] &= down
    found[:-1] &= down
    found[:, 1:] &= right
    found[:, :-1] &= right
    return found
