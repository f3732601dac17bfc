"""The paper's picture figures for any job, as plans: which jobs to run by which method, and where each
result goes on a labelled sheet.

A plan costs nothing; `paint` runs it. So everything that can be refused is refused before the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..images import describe, read_rgb
from ..job import InputError, Job, Region, Result, Settings
from ..methods import Mast, Method, SharedAttention
from ..regions.masks import read_masks
from ..sheets import Tile, overlay, region_colour, sheet


@dataclass(frozen=True)
class Panel:
    """One picture to make."""

    caption: str
    job: Job
    method: Method
    settings: Settings


@dataclass
class FigurePlan:
    """Rows of a sheet: pictures that are there already, and runs whose results take their place."""

    title: str
    rows: list[list[Tile | Panel]]
    notes: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Panel]:
        return [entry for row in self.rows for entry in row if isinstance(entry, Panel)]

    def paint(self, run: Callable[[int, Panel], Result], height: int) -> tuple[Image.Image, list[Result]]:
        """Runs it all, in order; run: (number from 0, what) -> result."""
        results: list[Result] = []
        rows = []
        for row in self.rows:
            cells = []
            for entry in row:
                if isinstance(entry, Panel):
                    results.append(run(len(results), entry))
                    entry = Tile(results[-1].image, entry.caption)
                cells.append(entry)
            rows.append(cells)
        return sheet(rows, height, self.title), results


def fixed(job: Job) -> tuple[Image.Image, np.ndarray, list[Region]]:
    """The photo, its masks (N, H, W) as they fall, and the regions with these masks for their own, so that
    leaving one out changes no other.
    """
    photo = read_rgb(job.content, "photo")
    masks = read_masks(job, photo.size, []).numpy()
    return photo, masks, [replace(r, mask=mask) for r, mask in zip(job.regions, masks, strict=True)]


def style_cells(regions: Sequence[Region]) -> list[Tile]:
    return [
        Tile(read_rgb(region.style, "style image"), _stem(region), region_colour(i))
        for i, region in enumerate(regions)
    ]


def progressive(jobs: Sequence[tuple[str, Job]], method: Method, settings: Settings) -> FigurePlan:
    """One style more in every picture, the masks fixed; what has no style yet stays content."""
    rows: list[list[Tile | Panel]] = []
    for _, job in jobs:
        photo, masks, regions = fixed(job)
        rows.append([Tile(photo, "photo"), Tile(overlay(photo, masks), "regions"), *style_cells(regions)])
        rows.append(
            [
                Panel(
                    f"{k} style{'s' if k > 1 else ''}: + {_stem(regions[k - 1])}",
                    Job(job.content, tuple(regions[:k])),
                    method,
                    settings,
                )
                for k in range(1, len(regions) + 1)
            ]
        )
    return FigurePlan("Styles added one by one", rows)


def backgrounds(job: Job, styles: Sequence[str], method: Method, settings: Settings) -> FigurePlan:
    """The same foreground before one background style after the other.

    The background is the region that takes what is left over; a job without one gets it.
    """
    if not styles:
        raise InputError("no background given; add --background STYLE, once for each")
    at = next((i for i, region in enumerate(job.regions) if region.mask is None), len(job.regions))
    if at == 0 and len(job.regions) == 1:
        raise InputError("the only region takes the whole photo; give the foreground with -r MASK=STYLE")
    above: list[Tile | Panel] = []
    below: list[Tile | Panel] = []
    for name in styles:
        regions = list(job.regions)
        strength = regions[at].strength if at < len(regions) else 1.0
        regions[at : at + 1] = [Region(name, None, strength)]
        changed = Job(job.content, tuple(regions))
        if not above:
            photo, masks, fixed_regions = fixed(changed)
            above += [
                Tile(photo, "photo"),
                *style_cells(fixed_regions)[:at],
                *style_cells(fixed_regions)[at + 1 :],
            ]
            below += [Tile(overlay(photo, masks), "regions")]
        above.append(Tile(read_rgb(name, "style image"), Path(name).stem, region_colour(at)))
        below.append(Panel(f"before {Path(name).stem}", changed, method, settings))
    return FigurePlan("One foreground, several backgrounds", [above, below])


def parse_aspect(text: str) -> Fraction:
    """16:9 -> 16/9."""
    width, colon, height = text.partition(":")
    if not (colon and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise InputError(f"--aspects {text}: write WIDTH:HEIGHT, as in 16:9")
    aspect = Fraction(int(width), int(height))
    if not Fraction(1, 4) <= aspect <= 4:
        raise InputError(f"--aspects {text}: from 1:4 to 4:1, please")
    return aspect


def crop_box(
    size: tuple[int, int], aspect: Fraction, centre: tuple[float, float]
) -> tuple[int, int, int, int]:
    """The largest box (left, top, right, bottom) of an aspect inside (W, H), as near to a centre (x, y) as
    it can be.
    """
    width = min(size[0], int(size[1] * aspect))
    height = min(size[1], int(size[0] / aspect))
    left = min(max(0, round(centre[0] - width / 2)), size[0] - width)
    top = min(max(0, round(centre[1] - height / 2)), size[1] - height)
    return left, top, left + width, top + height


def sizes(
    job: Job, aspects: Sequence[str], lengths: Sequence[int], method: Method, settings: Settings
) -> FigurePlan:
    """A row per aspect ratio, a column per size; photo and masks are cropped alike, around the first
    region.
    """
    photo, masks, regions = fixed(job)
    rows: list[list[Tile | Panel]] = []
    notes: list[str] = []
    ys, xs = np.nonzero(masks[0] >= 0.5 * masks[0].max())
    for text in aspects:
        shape = parse_aspect(text)
        box = crop_box(photo.size, shape, (float(xs.mean()), float(ys.mean())))
        cropped = masks[:, box[1] : box[3], box[0] : box[2]]
        kept = [i for i, mask in enumerate(cropped) if mask.max() >= 0.5]
        notes += [f"{text}: region {i + 1} lies outside the crop" for i in range(len(masks)) if i not in kept]
        part = photo.crop(box)
        if min(part.size) < 64:
            raise InputError(
                f"--aspects {text}: the crop is {part.width}x{part.height} pixels; take a larger photo"
            )
        if not kept:
            raise InputError(f"--aspects {text}: the crop holds none of the regions; choose another shape")
        row: list[Tile | Panel] = [Tile(overlay(part, cropped), f"{text} of the photo")]
        for length in lengths:
            # Of the shape itself: the whole pixels of a crop only come near it.
            scale = length / max(shape, Fraction(1))
            size = (round(shape * scale), round(scale))
            fitted = [replace(regions[i], mask=_resized(cropped[i], size)) for i in kept]
            small = Job(part.resize(size, Image.Resampling.LANCZOS), tuple(fitted))
            row.append(Panel(f"{size[0]}x{size[1]}", small, method, settings.with_(size=length)))
        rows.append(row)
    return FigurePlan(
        "Aspect ratios and sizes", [[Tile(photo, "photo"), *style_cells(regions)], *rows], notes
    )


def ablation(jobs: Sequence[tuple[str, Job]], method: Mast, settings: Settings) -> FigurePlan:
    """Table 3's four rows as a sheet: shared attention, + LAMA, + STS, + DDI."""
    shared = SharedAttention(lam=method.lam, pi=method.pi)
    stages: list[tuple[str, Method]] = [
        ("shared attention", shared),
        ("+ LAMA", replace(method, lama=True, sts=False, ddi=False)),
        ("+ LAMA + STS", replace(method, lama=True, sts=True, ddi=False)),
        ("+ LAMA + STS + DDI", replace(method, lama=True, sts=True, ddi=True)),
    ]
    rows: list[list[Tile | Panel]] = []
    for _, job in jobs:
        photo, masks, regions = fixed(job)
        first = [Tile(photo, "photo"), Tile(overlay(photo, masks), "regions"), *style_cells(regions)]
        rows += [list(first), [Panel(caption, job, stage, settings) for caption, stage in stages]]
    return FigurePlan("Ablation: what each part adds", rows)


def record(plan: FigurePlan, results: Sequence[Result]) -> list[dict[str, Any]]:
    """How each picture of the sheet was made, for the JSON beside it."""
    return [
        {"caption": run.caption, "seconds": result.seconds, **result.provenance}
        for run, result in zip(plan.runs, results, strict=True)
    ]


def _resized(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    fitted = Image.fromarray(mask).resize(size, Image.Resampling.BILINEAR)
    return np.clip(np.asarray(fitted), 0, 1).copy()


def _stem(region: Region) -> str:
    return Path(describe(region.style, "style")).stem
