"""A photo divided into N regions, without a click.

A segmenter proposes objects, more than are wanted and one inside the other; the set of N - 1 is taken that,
with the background that is left, divides the photo best. A division is good when it explains what is known of
the pixels: their colour, which of the proposed objects they belong to, and whether they catch the eye.
Explained is the share of each of these that differs between the regions rather than within them, as in an
analysis of variance. Where there are too few objects the background is divided further by colour and place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np
import torch
from PIL import Image

from ..images import COLOUR_TOLERANCE
from ..job import InputError
from ..methods.clustering import k_means
from .edit import drop_specks, fill_holes, grow, guided, morphology, shrink
from .partition import Found, NamedMasks, interior, named
from .segment import Proposal, Segmenter, propose

MOST_REGIONS = 16
LOOK = 1024  # pixels of the longer side at which objects are looked for
WORK = 640  # and at which regions are made of them
GRID = 96  # cells of the longer side on which divisions are compared
SMALLEST, LARGEST = 0.01, 0.92  # share of the photo that an object may cover
SOLID = 0.003  # share of the photo that must be inside it, away from its edges
SPECK = 0.004  # share of the photo below which a part is a speck, and a hole is closed
SLIVER = 1 / 160  # of the longer side: half the width of a strip that is too thin to be meant
SNAP = 1 / 80  # of the longer side, within which the photo's edges are looked for
SAME = 0.8  # overlap (intersection over union) from which on two objects are one
TELLING = 0.065  # what the best object must explain; a photo in which none does has no objects
TRIED = 4000  # divisions that are all compared; where there are more the search is greedy
SALIENT = 0.5  # what catches the eye is sure from here on
STEEPER = 2.0  # than the guided filter leaves them, edges are
LEAST = 1e-3  # what all masks of a pixel must have in sum for it to be shared by them
EDGE = 0.6  # pixels over which even the sharpest edge fades
BLUR = 1 / 40  # of the longer side, over which colours are averaged before pixels are clustered
PLACE = 0.6  # how much the place counts beside the colour then


@dataclass(frozen=True)
class Divided:
    """N regions that tile a photo, objects first, largest first, and the background last; and how they were
    found.
    """

    regions: NamedMasks
    notes: list[str] = field(default_factory=list)


def divide(
    photo: Image.Image, n: int, segmenter: Segmenter | None = None, salience: Segmenter | None = None
) -> Divided:
    """N regions whose masks sum to 1 at every pixel and turn from one to the next at the photo's edges.

    segmenter: proposes the objects; without one the photo is divided by colour and place. salience: says what
    catches the eye.
    """
    check_count(n)
    photo = photo.convert("RGB")
    large = at_most(photo, LOOK)
    small = at_most(photo, WORK)
    seen = _proposals(salience, large, small.size)
    eye = np.maximum.reduce([one.mask for one in seen]) if seen else None
    found = [*_proposals(segmenter, large, small.size), *seen]
    chosen = best_set(candidates(found), evidence(small, found, eye), n - 1)
    labels = paint(chosen, small.size)
    notes = []
    if len(chosen) < n - 1:
        told = f"{len(chosen) or 'no'} object{'s' * (len(chosen) != 1)}"
        notes.append(f"{told} could be told apart; the rest is divided by colour and place")
        labels = split_background(labels, small, n)
    labels = in_order(tidy(labels, n), eye, n)
    names = named([Found("object", labels == i) for i in range(n - 1)])
    return Divided(NamedMasks(names, soften(labels, photo, n)), notes)


def check_count(n: int, what: str = "-n") -> None:
    if not 2 <= n <= MOST_REGIONS:
        raise InputError(f"{what} {n}: give a number of regions from 2 to {MOST_REGIONS}")


def at_most(photo: Image.Image, longer: int) -> Image.Image:
    """A photo whose longer side has no more than so many pixels."""
    scale = longer / max(photo.size)
    if scale >= 1:
        return photo
    size = (max(1, int(photo.width * scale + 0.5)), max(1, int(photo.height * scale + 0.5)))
    return photo.resize(size, Image.Resampling.BILINEAR)


def _proposals(segmenter: Segmenter | None, photo: Image.Image, size: tuple[int, int]) -> list[Proposal]:
    """What a segmenter proposes, at (w, h)."""
    found = propose(segmenter, photo) if segmenter is not None else []
    return [Proposal(_resized(one.mask, size), one.score) for one in found]


# ------------------------------------------------------------ what may be a region


def candidates(found: Sequence[Proposal]) -> list[Proposal]:
    """Objects of a fair size without specks, holes and doubles; bool masks, largest first."""
    kept: list[Proposal] = []
    for one in sorted(found, key=lambda proposal: -proposal.score):
        mask = fill_holes((one.mask >= 0.5).astype(np.float32), SPECK)
        solid = drop_specks(mask, SPECK * mask.size) > 0
        whole = drop_specks(mask, SMALLEST * mask.size).any()
        if whole and solid.mean() <= LARGEST and all(_overlap(solid, k.mask) < SAME for k in kept):
            kept.append(Proposal(solid, one.score))
    return sorted(kept, key=lambda proposal: -int(proposal.mask.sum()))


def _overlap(one: np.ndarray, other: np.ndarray) -> float:
    return float((one & other).sum()) / float((one | other).sum())


def evidence(photo: Image.Image, found: Sequence[Proposal], eye: np.ndarray | None) -> np.ndarray:
    """float32 (f, h, w) on the grid: what a good division explains. Colour, membership in the proposed
    objects and salience count alike; together their variance over the photo is 1.
    """
    size = _grid(photo.size)
    colour = np.asarray(photo.convert("YCbCr").resize(size, Image.Resampling.BOX), np.float32)
    members = [_resized(one.mask, size) for one in found]
    groups = [colour.transpose(2, 0, 1), np.stack(members or [np.zeros(size[::-1])])]
    if eye is not None and float(eye.max()) >= SALIENT:
        groups.append(_resized(eye, size)[None])
    spreads = [float(group.var((1, 2)).sum()) for group in groups]
    kept = [group / spread**0.5 for group, spread in zip(groups, spreads, strict=True) if spread > 1e-6]
    if not kept:
        return np.zeros((1, *size[::-1]), np.float32)
    return (np.concatenate(kept) / len(kept) ** 0.5).astype(np.float32)


def _grid(size: tuple[int, int]) -> tuple[int, int]:
    scale = min(1.0, GRID / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _resized(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A mask (h, w) at (w, h), as float32."""
    small = mask.shape[1] > size[0]
    how = Image.Resampling.BOX if small else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(mask.astype(np.float32)).resize(size, how))


# ------------------------------------------------------------ which are taken


def best_set(objects: Sequence[Proposal], known: np.ndarray, count: int) -> list[Proposal]:
    """So many objects, or fewer where there are no more, that divide the photo best; largest first.

    known: (f, h, w). All sets are compared where they are few, else objects are taken one by one, the best
    first, and then each is put to the test again.
    """
    size = known.shape[2], known.shape[1]
    masks = [_resized(one.mask, size).ravel() >= 0.5 for one in objects]
    features = known.reshape(len(known), -1)
    features = features - features.mean(1, keepdims=True)

    def worth(picked: Sequence[int]) -> float:
        labels = np.full(features.shape[1], len(picked))
        for number, i in enumerate(sorted(picked)):  # from large to small, so the small lie in front
            labels[masks[i]] = number
        counts = np.bincount(labels, minlength=len(picked) + 1)
        solid = np.bincount(labels[interior(labels.reshape(known.shape[1:])).ravel()], minlength=len(counts))
        if counts.min() < SMALLEST * len(labels) or solid.min() < SOLID * len(labels):
            return -1.0
        sums = features @ (labels[:, None] == np.arange(len(counts))).astype(np.float32)
        explained = float((sums**2 / counts).sum()) / len(labels)
        return explained * float(np.mean([objects[i].score for i in picked])) ** 2

    if not objects or max(worth((i,)) for i in range(len(objects))) < TELLING:
        return []
    for wanted in range(min(count, len(objects)), 0, -1):
        picked = _search(len(objects), wanted, worth)
        if worth(picked) > 0:
            return [objects[i] for i in sorted(picked)]
    return []


def _search(total: int, wanted: int, worth: Callable[[Sequence[int]], float]) -> tuple[int, ...]:
    if comb(total, wanted) <= TRIED:
        return max(combinations(range(total), wanted), key=worth)
    picked: tuple[int, ...] = ()
    for _ in range(wanted):
        picked = max(((*picked, i) for i in range(total) if i not in picked), key=worth)
    for _ in range(wanted):  # the first leaves its place, and comes back at the end where nothing is better
        rest = picked[1:]
        picked = max(((*rest, i) for i in range(total) if i not in rest), key=worth)
    return picked


def paint(objects: Sequence[Proposal], size: tuple[int, int]) -> np.ndarray:
    """int (h, w): each object's number, later ones over earlier ones; the background has the last."""
    labels = np.full(size[::-1], len(objects))
    for number, one in enumerate(objects):
        labels[one.mask] = number
    return labels


def split_background(labels: np.ndarray, photo: Image.Image, n: int) -> np.ndarray:
    """Labels with the last of them divided by colour and place, until there are n."""
    last = int(labels.max())
    behind = labels == last
    longer = max(labels.shape)
    blur = lambda x: morphology().gaussian_filter(x, BLUR * longer)
    weight = behind.astype(np.float32)
    colours = np.asarray(photo.convert("YCbCr"), np.float32).transpose(2, 0, 1)
    smooth = np.stack([blur(colour * weight) for colour in colours]) / np.maximum(blur(weight), 1e-6)
    points = torch.from_numpy(smooth[:, behind].T)
    rows, columns = np.nonzero(behind)
    places = torch.from_numpy(np.stack([columns, rows], -1).astype(np.float32)) / longer
    points = torch.cat(
        [points / points.std(0).norm().clamp_min(COLOUR_TOLERANCE), PLACE * places / places.std(0).norm()], 1
    )
    sample = points[:: max(1, len(points) // GRID**2)]
    clusters = k_means(sample, n - last)
    centres = torch.stack([sample[clusters == i].mean(0) for i in range(int(clusters.max()) + 1)])
    divided = labels.copy()
    divided[behind] = last + torch.cdist(points, centres).argmin(1).numpy()
    return divided


def tidy(labels: np.ndarray, n: int) -> np.ndarray:
    """Labels 0 to n - 1 without specks, and without slivers that two others have left between them: each goes
    to the region that is nearest.
    """
    ndimage = morphology()
    masks = [(labels == number).astype(np.float32) for number in range(n)]
    thin = SLIVER * max(labels.shape)
    around = np.sum([grow(mask, 2 * thin) for mask in masks], 0)
    loose = np.zeros(labels.shape, bool)
    for mask in masks:
        loose |= (mask > grow(shrink(mask, thin), thin)) & (around > 2)
    for mask in masks:
        parts, count = ndimage.label((mask > 0) & ~loose)
        sizes = np.bincount(parts.ravel(), minlength=count + 1)
        small = sizes < min(SPECK * labels.size, sizes[1:].max(initial=0))
        small[0] = False
        loose |= small[parts]
    if loose.all():
        return labels
    nearest = ndimage.distance_transform_edt(loose, return_distances=False, return_indices=True)
    return labels[tuple(nearest)]


def in_order(labels: np.ndarray, eye: np.ndarray | None, n: int) -> np.ndarray:
    """Numbered anew: the background, which fills the photo's border and catches no eye, last; the others from
    large to small.
    """
    border = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    at_border = np.bincount(border, minlength=n) / len(border)
    sizes = np.bincount(labels.ravel(), minlength=n)
    seen = np.zeros(n) if eye is None else np.bincount(labels.ravel(), eye.ravel(), n) / np.maximum(sizes, 1)
    background = int((at_border - seen).argmax())
    order = [*sorted((i for i in range(n) if i != background), key=lambda i: -sizes[i]), background]
    number = np.empty(n, int)
    number[order] = np.arange(n)
    return number[labels]


# ------------------------------------------------------------ edges


def soften(labels: np.ndarray, photo: Image.Image, n: int) -> np.ndarray:
    """Masks float32 (n, h, w) of the photo's size from labels of a smaller one: soft where regions meet, at
    the edges of the photo, and 255 levels in all at every pixel.
    """
    hard = (labels == np.arange(n)[:, None, None]).astype(np.float32)
    soft = guided(hard, photo, SNAP * max(photo.size))
    for mask, own in zip(soft, hard, strict=True):
        near = _resized(grow(own, SNAP * max(labels.shape)), photo.size) > 0.5
        mask[:] = np.clip((mask - 0.5) * STEEPER + 0.5, 0, 1) * near
    total = soft.sum(0)
    lost = total < LEAST
    if lost.any():
        nearest = Image.fromarray(labels.astype(np.uint8)).resize(photo.size, Image.Resampling.NEAREST)
        soft[:, lost] = np.asarray(nearest)[lost] == np.arange(n)[:, None]
        total[lost] = 1
    blur = morphology().gaussian_filter
    for mask in soft:
        mask[:] = 255 * blur(mask / total, EDGE, mode="nearest")
    return whole_levels(soft)


def whole_levels(masks: np.ndarray) -> np.ndarray:
    """Masks (n, h, w) from 0 to 255 in whole levels that sum to 255 at every pixel, as shares of 1: what is
    lost goes to the mask in front.
    """
    front = masks.argmax(0)[None]
    np.floor(masks, out=masks)
    np.put_along_axis(masks, front, np.take_along_axis(masks, front, 0) + 255 - masks.sum(0), 0)
    return masks / 255
