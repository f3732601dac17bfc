"""Measuring a collection: every metric over its results, from files to an Evaluation."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..features.cache import Cache
from ..job import InputError
from ..weights.registry import OnBytes
from .evaluation import BIASED, FEW, METRICS, Evaluation
from .fid import Statistics, artfid, fid
from .inception import DIMENSIONS, NAMES, InceptionEncoder, load_inception
from .intervals import FEWEST, Interval, interval_of_mean, interval_of_pairs
from .lpips import load_lpips
from .regional import REPEATS, RegionDistances, RegionPair, region_distances, region_pairs
from .samples import Collection, EvaluatedPicture, Looked
from .store import Distance, OnCount, Store
from .structure import load_cfsd, ssim

LISTED = 10  # problems a message spells out


@dataclass(frozen=True)
class Options:
    """How to measure.

    inception: decides the scale of all that is measured in its features; see metrics.inception.
    size: longer side at which results and photos are compared (LPIPS, SSIM, CFSD); None is the result's own.
    seed: of the draws of R-FID and R-KID, and of the intervals' resamples.
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
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; give 0 or more")
        if self.size is not None and not 64 <= self.size <= 8192:
            raise InputError(f"size is {self.size}; it must be from 64 to 8192 pixels, or left out")


@dataclass(frozen=True)
class Networks:
    """What measures: the Inception, and the distances between a result and its photo, by name."""

    encoder: InceptionEncoder
    distances: dict[str, Distance]


def load_networks(options: Options, on_bytes: OnBytes | None = None) -> Networks:
    """The networks of these options; a distance's name says with which weights it measures."""
    encoder = load_inception(options.inception, options.inception_weights, options.device, on_bytes)
    lpips = load_lpips(options.lpips, options.lpips_weights, options.device, on_bytes)
    distances: dict[str, Distance] = {
        f"lpips {lpips.net} {lpips.fingerprint}": lpips.of_levels,
        "ssim": ssim,
    }
    if options.cfsd is not None:
        cfsd = load_cfsd(options.cfsd, options.cfsd_weights, options.device, on_bytes)
        distances[f"cfsd {cfsd.net} {cfsd.fingerprint}"] = cfsd
    return Networks(encoder, distances)


def evaluate(
    found: Collection,
    options: Options = Options(),  # noqa: B008  (frozen)
    on_count: OnCount | None = None,
    on_bytes: OnBytes | None = None,
    networks: Networks | None = None,
) -> Evaluation:
    """Every metric of a collection: FID, LPIPS, ArtFID, R-FID, M-FID, R-KID, cosine and SSIM (and CFSD).

    FID's reference counts a style once for every region it is assigned to, so that it is the mixture of
    styles the results were asked for; so do the regional ones, where all (result, region) pairs form one
    collection. networks: what `load_networks` gives for these options, when it is loaded already.
    """
    began, tell = time.perf_counter(), on_count or (lambda stage, done, total: None)
    loaded = networks or load_networks(options, on_bytes)
    encoder, notes = loaded.encoder, list(found.notes)
    with Store(Cache() if options.cache else None, options.batch) as store:
        assigned = [style for sample in found.samples for style in sample.styles]
        alone = [Looked(path) for path in (*(s.stylized for s in found.samples), *found.styles)]
        store.extract(encoder, [*alone, *assigned], tell)
        values = {
            name.split()[0]: store.distances(name, distance, found.samples, options.size, tell)
            for name, distance in loaded.distances.items()
        }
        weights = _weights(store, encoder, found.samples, notes)
        problems = {**found.problems, **store.problems}
        samples = _sound(found.samples, problems, options.skip_bad)
        styles = [path for path in found.styles if str(path) not in problems]
        pairs, skipped = _pairs(store, encoder, samples, weights)
        frechet = _fid(store, encoder, samples, styles, notes)
        regional: RegionDistances | None = None
        if len(pairs) >= 2:
            regional = region_distances(
                pairs,
                lambda style: store.map(encoder, style),
                options.seed,
                options.repeats,
                lambda done, total: tell("r-fid", done, total),
            )
        else:
            notes.append(
                f"R-FID, M-FID and R-KID need at least 2 regions with a style; there are {len(pairs)}"
            )
        each = {name: [of[sample.name] for sample in samples] for name, of in values.items()}
        means = {name: sum(numbers) / len(samples) for name, numbers in each.items()}
        report = Evaluation(
            n=len(samples),
            n_regions=len(pairs),
            n_styles=len({store.hash(style.path) for s in samples for style in s.styles}) or len(styles),
            fid=frechet,
            artfid=None if frechet is None else artfid(frechet, means["lpips"]),
            **means,
            **_regional(regional),
            intervals=_intervals(each, regional, options.seed),
            skipped_regions=skipped,
            networks={
                "inception": f"{encoder.name} {encoder.fingerprint}",
                **{name.split()[0]: name.partition(" ")[2] for name in loaded.distances if " " in name},
            },
            repeats=options.repeats,
            seed=options.seed,
            size=options.size,
            notes=notes,
            excluded=problems,
            samples=_rows(samples, each, pairs, regional),
        )
    known = [(metric, report.estimate(metric)) for metric in METRICS.values()]
    if any(metric.frechet and estimate and not estimate.enough for metric, estimate in known):
        notes.append(BIASED)
    if report.n < FEWEST:
        notes.append(FEW)
    report.seconds = time.perf_counter() - began
    return report


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
    """The samples none of whose files is a problem; an error that lists all problems unless they may be
    left out.
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
        & {sample.name, str(sample.stylized), *(str(style.path) for style in sample.styles)}
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
            features = store.map(encoder, Looked(sample.stylized))
            more, without = region_pairs(features, weights[sample.name], sample.styles, sample.name)
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
        results.add(store.map(encoder, Looked(sample.stylized)).mean(0))
    counts = Counter(style for sample in samples for style in sample.styles)
    for style, times in (counts or Counter(map(Looked, styles))).items():
        wanted.add(store.map(encoder, style).mean(0), times)
    if results.n < 2 or wanted.n < 2:
        notes.append(f"FID needs at least 2 results and 2 styles; there are {results.n} and {wanted.n}")
        return None
    return fid(results, wanted)


def _regional(found: RegionDistances | None) -> dict[str, Any]:
    """The regional figures, as the evaluation names them."""
    if found is None:
        return {}
    same = (
        *("rfid", "rfid_std", "rfid_mean_term", "rfid_trace_term", "region_variance"),
        *("mfid", "rkid", "rkid_std"),
    )
    return {**{name: getattr(found, name) for name in same}, "cosine": float(found.cosines.mean())}


def _intervals(
    each: Mapping[str, Sequence[float]], regional: RegionDistances | None, seed: int
) -> dict[str, Interval]:
    """By metric, where there are pictures enough: the means over pictures, over regions, over their pairs."""
    found = {
        name: interval_of_mean(torch.tensor(numbers), seed)
        for name, numbers in each.items()
        if len(numbers) >= FEWEST
    }
    if regional is not None and len(regional.kernel_sums) >= FEWEST:
        sizes = torch.bincount(regional.pictures)
        cosines = torch.zeros(len(sizes), dtype=torch.float64).index_add_(
            0, regional.pictures, regional.cosines
        )
        found["cosine"] = interval_of_mean(cosines, seed, sizes)
        found["rkid"] = interval_of_pairs(regional.kernel_sums, sizes, seed)
    return found


def _rows(
    samples: Sequence[EvaluatedPicture],
    each: Mapping[str, Sequence[float]],
    pairs: Sequence[RegionPair],
    regional: RegionDistances | None,
) -> list[dict[str, Any]]:
    """A row for each result; its cosine is the mean over its regions."""
    cosines: dict[str, list[float]] = {}
    if regional is not None:
        for pair, cosine in zip(pairs, regional.cosines.tolist(), strict=True):
            cosines.setdefault(pair.picture, []).append(cosine)
    return [
        {
            "name": sample.name,
            "stylized": str(sample.stylized),
            "content": str(sample.content),
            "regions": len(sample.regions),
            **{name: numbers[i] for name, numbers in each.items()},
            "cosine": sum(own) / len(own) if (own := cosines.get(sample.name)) else None,
        }
        for i, sample in enumerate(samples)
    ]
