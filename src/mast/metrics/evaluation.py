"""What an evaluation found: every figure with its n, how sure it is, and which networks measured it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import atomic
from ..tables import Table, comma_separated, number, text_table
from .inception import DIMENSIONS
from .intervals import FEWEST, RESAMPLES, SHARE, Interval
from .regional import REPEATS

BIASED = (
    f"ArtFID, FID, R-FID and M-FID of fewer than {DIMENSIONS:,} results or regions are not ranked: features "
    "have as many dimensions, so they are biased upward and mostly weigh how much outputs vary. R-KID, the "
    "cosine and LPIPS are not biased"
)
FEW = f"fewer than {FEWEST} pictures are too few: figures have no interval and are not ranked"


@dataclass(frozen=True)
class Metric:
    """A figure of an evaluation: its field there, its name for people, which way is better, its decimals.

    frechet: it is or contains a Frechet distance, so it has no interval and needs as many samples as features
    have dimensions. regional: its samples are regions, not pictures.
    """

    name: str
    title: str
    higher: bool = False
    digits: int = 3
    frechet: bool = False
    regional: bool = False

    @property
    def heading(self) -> str:
        return f"{self.title} {'↑' if self.higher else '↓'}"

    @property
    def least(self) -> int:
        """Samples below which it is not ranked."""
        return DIMENSIONS if self.frechet else FEWEST


METRICS = {
    metric.name: metric
    for metric in (
        Metric("artfid", "ArtFID", frechet=True),
        Metric("fid", "FID", frechet=True),
        Metric("rfid", "R-FID", frechet=True, regional=True),
        Metric("mfid", "M-FID", frechet=True, regional=True),
        Metric("rkid", "R-KID", digits=4, regional=True),
        Metric("cosine", "cosine", higher=True, regional=True),
        Metric("lpips", "LPIPS"),
        Metric("ssim", "SSIM", higher=True),
        Metric("cfsd", "CFSD"),
    )
}


@dataclass(frozen=True)
class Estimate:
    """A figure's value, its interval where it has one, and whether it was measured on enough to rank by."""

    value: float
    interval: Interval | None = None
    enough: bool = True


@dataclass
class Evaluation:
    """The numbers; one that could not be computed is None, and a note says why.

    intervals: by metric, for those that have one and were measured on enough pictures. samples: a row for
    each result. rfid_mean_term, rfid_trace_term and region_variance: see metrics.regional.
    """

    n: int
    n_regions: int
    n_styles: int
    fid: float | None = None
    lpips: float | None = None
    artfid: float | None = None
    rfid: float | None = None
    rfid_std: float | None = None
    rfid_mean_term: float | None = None
    rfid_trace_term: float | None = None
    region_variance: float | None = None
    mfid: float | None = None
    rkid: float | None = None
    rkid_std: float | None = None
    cosine: float | None = None
    ssim: float | None = None
    cfsd: float | None = None
    intervals: dict[str, Interval] = field(default_factory=dict)
    skipped_regions: int = 0
    networks: dict[str, str] = field(default_factory=dict)
    repeats: int = REPEATS
    seed: int = 0
    size: int | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def estimate(self, metric: Metric) -> Estimate | None:
        value = getattr(self, metric.name)
        if value is None:
            return None
        if metric.frechet:
            styles = self.n_regions or self.n_styles  # the references: one a region, or a set of styles
            count = self.n_regions if metric.regional else min(self.n, styles)
            return Estimate(value, None, count >= metric.least)
        return Estimate(value, self.intervals.get(metric.name), metric.name in self.intervals)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path) -> None:
        """PATH.json with everything, PATH.csv with a row per result."""
        with atomic(path.with_suffix(".json")) as part:
            part.write_text(json.dumps(self.to_dict(), indent=2) + "\n")
        with atomic(path.with_suffix(".csv")) as part:
            columns = list(self.samples[0]) if self.samples else ["name"]
            part.write_text(comma_separated(columns, self.samples), newline="")

    def table(self) -> Table:
        """A row a metric: its value, its interval or why there is none, its n; below, what measured it."""
        what = {
            "artfid": "(1 + LPIPS)(1 + FID)",
            "fid": "results to styles",
            "rfid": f"± {number(self.rfid_std)} over the draws",
            "mfid": "regions to whole styles",
            "rkid": f"± {number(self.rkid_std, 4)} over the draws",
            "cosine": "regions with own styles",
        }
        rows = []
        for metric in METRICS.values():
            found = self.estimate(metric)
            if found is None and metric.name == "cfsd":
                continue
            value = number(found.value if found else None, 4)
            n = f"{self.n_regions} regions" if metric.regional else f"{self.n} results"
            rows.append(
                (
                    *(metric.title, value, describe_certainty(metric, found), n),
                    what.get(metric.name, "results to photos") if found else "",
                )
            )
        skipped = f" ({self.skipped_regions} more without a cell)" if self.skipped_regions else ""
        networks = "".join(
            f"{title} {self.networks[name]}; "
            for name, title in (("inception", "Inception"), ("lpips", "LPIPS"), ("cfsd", "CFSD"))
            if name in self.networks
        )
        caption = (
            f"{self.n} results, {self.n_regions} regions{skipped}, {self.n_styles} styles. {networks}"
            f"R-FID and R-KID: {self.repeats} draws, seed {self.seed}; intervals: {RESAMPLES:,} resamples."
        )
        header = ("metric", "value", f"{SHARE:.0%} interval", "n", "compares")
        return text_table("evaluation", "", header, rows, caption)


def describe_certainty(metric: Metric, found: Estimate | None) -> str:
    """ "0.479 to 0.503", "too few (below 20)", or a dash where a figure never has an interval."""
    if found is None:
        return "-"
    if not found.enough:
        return f"too few (below {metric.least:,})"
    if found.interval is None:
        return "-"
    return " to ".join(number(end, metric.digits) for end in found.interval)
