"""Attention mass as pictures: how much of its attention each place of the photo gives to each style, by
layer and step, for shared attention, LAMA, and LAMA with STS.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor

from ..backbone.sites import Site
from ..sheets import BACKGROUND, Tile, overlay, region_colour, sheet
from ..tables import number
from .observe import Sight
from .report import TextRow
from .rows import joint_masses

STAGES = {"shared": "shared", "lama": "+LAMA", "sts": "+STS"}
HEADER = ("partition", "stage", "target inside", "mass inside", "mass outside")
LONGEST = 384  # pixels of a map's longer side on the sheet


class Maps:
    """The onlooker of one picture: masses, averaged over heads, of the layers and steps asked for."""

    def __init__(self, sites: Collection[int], steps: Collection[int]) -> None:
        self.sites, self.steps = set(sites), set(steps)
        self.maps: dict[tuple[str, int, int], np.ndarray] = {}  # (stage, site, step): (N + 1, h, w)
        self.targets: dict[int, np.ndarray] = {}  # by site: (N + 1, h, w)
        self.times: dict[int, int] = {}  # by step: its timestep

    def __call__(self, sight: Sight) -> None:
        if sight.site.index not in self.sites or sight.step not in self.steps:
            return
        found = {
            "shared": joint_masses(sight.plain, 0.0, sight.one),
            "lama": joint_masses(sight.plain, sight.shift, sight.one),
            "sts": joint_masses(sight.sharpened, sight.shift, sight.tau),
        }
        for stage, masses in found.items():
            self.maps[stage, sight.site.index, sight.step] = _grid(masses.mean(1), sight.grid)
        self.targets[sight.site.index] = _grid(sight.targets, sight.grid)
        self.times[sight.step] = sight.t

    def shares(self, site: int, maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each partition's mean mass inside and outside its region, (N + 1,) each, NaN where there is
        none.
        """
        inside = self.targets[site] / np.maximum(self.targets[site].max((1, 2), keepdims=True), 1e-12)

        def mean(weight: np.ndarray) -> np.ndarray:
            area = weight.sum((1, 2))  # less than a hundredth of a cell is rounding, not a place
            return np.where(area > 0.01, (maps * weight).sum((1, 2)) / np.maximum(area, 0.01), np.nan)

        return mean(inside), mean(1 - inside)

    def rows(self, names: Sequence[str], sites: Sequence[Site]) -> list[dict[str, Any]]:
        """A flat row per partition, stage, layer and step; names: the styles' and the content's."""
        rows = []
        for (stage, site, step), maps in sorted(self.maps.items(), key=lambda item: item[0][1:]):
            goal = self.shares(site, self.targets[site])[0]
            inside, outside = self.shares(site, maps)
            for g, name in enumerate(names):
                rows.append(
                    {
                        "partition": name,
                        "stage": stage,
                        "layer": sites[site].attention,
                        "step": step,
                        "t": self.times[step],
                        "target_inside": _plain(goal[g]),
                        "inside": _plain(inside[g]),
                        "outside": _plain(outside[g]),
                    }
                )
        return rows

    def sheet(
        self,
        photo: Image.Image,
        styles: Sequence[tuple[Image.Image, str]],
        result: Image.Image,
        title: str,
        height: int = 160,
    ) -> Image.Image:
        """Three rows per partition: shared attention, LAMA, LAMA with STS; a column per step and layer.

        The first column shows the style, its target mass and the result.
        """
        small = photo.copy()
        small.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        finest = max(self.targets, key=lambda site: self.targets[site].size)
        count = len(styles) + 1
        rows = []
        for g, (picture, name) in enumerate([*styles, (photo, "content")]):
            goal = _over(small, self.targets[finest][g], g, count)
            shown = ImageOps.pad(picture, small.size, Image.Resampling.LANCZOS, BACKGROUND)  # columns align
            leads = {"shared": (shown, name), "lama": (goal, "target"), "sts": (result, "result")}
            for stage, label in STAGES.items():
                row = [Tile(*leads[stage], region_colour(g) if stage == "shared" else None)]
                for step in sorted(self.times):
                    for site in sorted(self.targets):
                        values = self.maps[stage, site, step][g]
                        caption = f"{label} {values.shape[0]}x{values.shape[1]} t{self.times[step]}"
                        row.append(Tile(_over(small, values, g, count), caption))
                rows.append(row)
        return sheet(rows, height, title)


def table(rows: Sequence[dict[str, Any]]) -> list[TextRow]:
    """Means over the layers and steps shown."""
    keys = list(dict.fromkeys((row["partition"], row["stage"]) for row in rows))
    found: list[TextRow] = []
    for partition, stage in sorted(keys, key=lambda key: list(STAGES).index(key[1])):
        own = [row for row in rows if (row["partition"], row["stage"]) == (partition, stage)]
        means = []
        for name in ("target_inside", "inside", "outside"):
            values = [row[name] for row in own if row[name] is not None]
            means.append(number(sum(values) / len(values) if values else None))
        found.append((partition, STAGES[stage], *means))
    return found


def spread(count: int, shown: int) -> list[int]:
    """`shown` of `count` indices, from the first to the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(shown, count))})


def _over(photo: Image.Image, values: np.ndarray, g: int, count: int) -> Image.Image:
    """One mass map (h, w) over the photo, in its partition's colour."""
    fitted = Image.fromarray(values.astype(np.float32)).resize(photo.size, Image.Resampling.BILINEAR)
    masks = np.zeros((count, photo.height, photo.width), np.float32)
    masks[g] = np.clip(np.asarray(fitted), 0, 1)
    return overlay(photo, masks, opacity=0.9)


def _grid(values: Tensor, grid: tuple[int, int]) -> np.ndarray:
    return values.float().cpu().numpy().reshape(-1, *grid)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
