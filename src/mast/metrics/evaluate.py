"""An evaluation: every metric over a collection, with n beside it and which networks measured it."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..features.cache import Cache
from ..files import atomic
from ..job import InputError, Region
from ..weights.registry import OnBytes
from .artfid import artfid
from .fid import Statistics, fid
from .inception import DIMENSIONS, NAMES, InceptionEncoder, load_inception
from .lpips import load_lpips
from .rfid import REPEATS, RegionPair, region_fid, region_pairs
from .samples import Collection, EvaluatedPicture
from .store import Distance, OnCount, Store
from .structure import load_cfsd, ssim

LISTED = 10  # problems a message spells out


@dataclass(frozen=True)
class Options:
    """How to measure. `inception` decides the scale of FID, ArtFID, R-FID and M-FID: see metrics.inception.

    size: longer side at which results and photos are compared (LPIPS, SSIM, CFSD); None is the result's own.
    """

    inception: str = "fid"
    inception_weights: Path | None = None
    lpips: str = "alex"
    lpips_weights: Path | None = None
    cfsd: str | None = None
    cfsd_weights: Path | None = None
    size: int | None = None
    repeats: int = REPEATS
    seed: int = 0
    batch: int = 8
    device: str | torch.device = "cpu"
    skip_bad: bool = False
    cache: bool = True

    def __post_init__(self) -> None:
        if self.inception not in NAMES:
            raise InputError(f"no Inception is called {self.inception!r}; choose one of {', '.join(NAMES)}")
        if self.repeats < 1 or self.batch < 1:
            raise InputError(f"repeats ({self.repeats}) and batch ({self.batch}) must be at least 1")
        if self.size is not None and not 64 <= self.size <= 8192:
            raise InputError(f"size is {self.size}; it must be from 64 to 8192 pixels, or left out")


@dataclass
class Evaluation:
    """The numbers. A metric that could not be computed is None, and a note says why."""

    n: int
    n_regions: int
    n_styles: int
    fid: float | None = None
    lpips: float | None = None
    artfid: float | None = None
    rfid: float | None = None
    rfid_std: float | None = None
    mfid: float | None = None
    ssim: float | None = None
    cfsd: float | None = None
    skipped_regions: int = 0
    networks: dict[str, str] = field(default_factory=dict)
    repeats: int = REPEATS
    seed: int = 0
    size: int | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    excluded: dict[str, str] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path) -> None:
        """PATH.json with everything, PATH.csv with a row per result."""
        with atomic(path.with_suffix(".json")) as part:
            part.write_text(json.dumps(self.to_dict(), indent=2) + "\n")
        with atomic(path.with_suffix(".csv")) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.samples[0]) if self.samples else ["name"])
            writer.writeheader()
            writer.writerows(self.samples)


@dataclass(frozen=True)
class Networks:
    """What measures: the Inception, and the distances between a result and its photo, by name."""

    encoder: InceptionEncoder
    distances: dict[str, Distance]


def load_networks(options: Options, on_bytes: OnBytes | None = None) -> Networks:
    encoder = load_inception(options.inception, options.inception_weights, options.device, on_bytes)
    return Networks(encoder, _distances(options, on_bytes))


def evaluate(
    found: Collection,
    options: Options = Options(),  # noqa: B008  (frozen)
    on_count: OnCount | None = None,
    on_bytes: OnBytes | None = None,
    networks: Networks | None = None,
) -> Evaluation:
    """FID, LPIPS, ArtFID, R-FID, M-FID and SSIM (and CFSD) of a collection.

    FID's reference counts a style once for every region it is assigned to, so that it is the mixture of
    styles the results were asked for; so do R-FID and M-FID, where all (result, region) pairs form one
    collection. networks: what `load_networks` gives for these options, when it is loaded already.
    """
    began, tell = time.perf_counter(), on_count or (lambda stage, done, total: None)
    loaded = networks or load_networks(options, on_bytes)
    encoder, distances = loaded.encoder, loaded.distances
    notes = list(found.notes)
    with Store(Cache() if options.cache else None, options.batch) as store:
        assigned = [_style(region) for sample in found.samples for region in sample.regions]
        store.extract(encoder, [*(s.stylized for s in found.samples), *found.styles, *assigned], tell)
        values = {
            name.split()[0]: store.distances(name, distance, found.samples, options.size, tell)
            for name, distance in distances.items()
        }
        weights = _weights(store, encoder, found.samples, notes)
        problems = {**found.problems, **store.problems}
        samples = _sound(found.samples, problems, options.skip_bad)
        styles = [path for path in found.styles if str(path) not in problems]
        pairs, skipped = _pairs(store, encoder, samples, weights)
        report = Evaluation(
            n=len(samples),
            n_regions=len(pairs),
            n_styles=len({store.hash(_style(r)) for s in samples for r in s.regions}) or len(styles),
            skipped_regions=skipped,
            networks={"inception": f"{encoder.name} {encoder.fingerprint}"},
            repeats=options.repeats,
            seed=options.seed,
            size=options.size,
            notes=notes,
            excluded=problems,
        )
        report.networks.update({name.split()[0]: name.partition(" ")[2] for name in distances if " " in name})
        for name, each in values.items():
            setattr(report, name, sum(each[sample.name] for sample in samples) / len(samples))
        report.fid = _fid(store, encoder, samples, styles, notes)
        if report.fid is not None and report.lpips is not None:
            report.artfid = artfid(report.fid, report.lpips)
        if len(pairs) >= 2:
            regional = region_fid(
                pairs,
                lambda style: store.map(encoder, style),
                options.seed,
                options.repeats,
                lambda done, total: tell("r-fid", done, total),
            )
            report.rfid, report.rfid_std, report.mfid = regional.rfid, regional.rfid_std, regional.mfid
        else:
            notes.append(
                f"R-FID and M-FID need at least 2 regions whose style is known; there are {len(pairs)}"
            )
        report.samples = [
            {
                "name": sample.name,
                "stylized": str(sample.stylized),
                "content": str(sample.content),
                "regions": len(sample.regions),
                **{name: each[sample.name] for name, each in values.items()},
            }
            for sample in samples
        ]
    report.seconds = time.perf_counter() - began
    return report


def _style(region: Region) -> Path:
    return Path(str(region.style))


def _distances(options: Options, on_bytes: OnBytes | None) -> dict[str, Distance]:
    """What is measured between a result and its photo, by a name that says with which weights."""
    lpips = load_lpips(options.lpips, options.lpips_weights, options.device, on_bytes)
    distances: dict[str, Distance] = {
        f"lpips {lpips.net} {lpips.fingerprint}": lpips.of_levels,
        "ssim": ssim,
    }
    if options.cfsd is not None:
        cfsd = load_cfsd(options.cfsd, options.cfsd_weights, options.device, on_bytes)
        distances[f"cfsd {cfsd.net} {cfsd.fingerprint}"] = cfsd
    return distances


def _weights(
    store: Store, encoder: InceptionEncoder, samples: list[EvaluatedPicture], notes: list[str]
) -> dict[str, Tensor]:
    """Each sample's regions on the feature grid, by name; masks that cannot be used become problems."""
    weights = {}
    for sample in samples:
        if sample.regions and sample.name not in store.problems:
            try:
                weights[sample.name] = store.weights(sample, encoder.grid, notes)
            except InputError as error:
                store.problems[sample.name] = str(error)
    return weights


def _sound(
    samples: list[EvaluatedPicture], problems: dict[str, str], skip_bad: bool
) -> list[EvaluatedPicture]:
    """The samples none of whose files is a problem; an error that lists the problems unless they may be left
    out.
    """
    if problems and not skip_bad:
        listed = "".join(f"\n  {text}" for text in list(dict.fromkeys(problems.values()))[:LISTED])
        more = f"\n  and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise InputError(
            f"{len(problems)} files are missing or damaged; mend them or leave them out with --skip-bad:"
            f"{listed}{more}"
        )
    sound = [
        sample
        for sample in samples
        if not problems.keys()
        & {sample.name, str(sample.stylized), *(str(_style(region)) for region in sample.regions)}
    ]
    if not sound:
        raise InputError(f"no result is left to evaluate: {len(problems)} files are missing or damaged")
    return sound


def _pairs(
    store: Store, encoder: InceptionEncoder, samples: list[EvaluatedPicture], weights: dict[str, Tensor]
) -> tuple[list[RegionPair], int]:
    """All (result, region) pairs in order, and the number of regions without a cell."""
    pairs: list[RegionPair] = []
    skipped = 0
    for sample in samples:
        if sample.name in weights:
            styles = [str(_style(region)) for region in sample.regions]
            features = store.map(encoder, sample.stylized)
            more, without = region_pairs(features, weights[sample.name], styles)
            pairs += more
            skipped += without
    return pairs, skipped


def _fid(
    store: Store,
    encoder: InceptionEncoder,
    samples: list[EvaluatedPicture],
    styles: list[Path],
    notes: list[str],
) -> float | None:
    """FID of the results to their styles, or to the set of styles where none is assigned."""
    results, wanted = Statistics(DIMENSIONS), Statistics(DIMENSIONS)
    for sample in samples:
        results.add(store.map(encoder, sample.stylized).mean(0))
    counts = Counter(_style(region) for sample in samples for region in sample.regions)
    for path, times in (counts or Counter(styles)).items():
        wanted.add(store.map(encoder, path).mean(0), times)
    if results.n < 2 or wanted.n < 2:
        notes.append(f"FID needs at least 2 results and 2 styles; there are {results.n} and {wanted.n}")
        return None
    if min(results.n, wanted.n) < DIMENSIONS:
        notes.append(
            f"FID, R-FID and M-FID of fewer than {DIMENSIONS} pictures are biased upward: "
            "compare only at equal n"
        )
    return fid(results, wanted)
