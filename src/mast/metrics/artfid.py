"""ArtFID (https://arxiv.org/abs/2207.12280): one number for content kept and style reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..job import InputError
from .fid import Statistics, fid
from .inception import DIMENSIONS, InceptionEncoder
from .lpips import Lpips
from .samples import EvaluatedPicture
from .store import Store


def artfid(fid: float, lpips: float) -> float:
    """(1 + LPIPS)(1 + FID), Sec. 4.1: LPIPS to the photos, FID to the styles.

    With ArtFID's Inception this is the paper's number (1.531 x 9.656 = 14.78); with FID's own it is on
    another scale.
    """
    return (1 + lpips) * (1 + fid)


def artfid_of_files(
    results: Sequence[Path],
    photos: Sequence[Path],
    styles: Sequence[Path],
    encoder: InceptionEncoder,
    lpips: Lpips,
    store: Store | None = None,
) -> dict[str, float]:
    """FID, LPIPS and ArtFID of results, their photos one by one, and the styles as a set; for use without
    records or regions. A style that belongs to several results is given several times.
    """
    if len(results) != len(photos):
        raise InputError(f"{len(results)} results but {len(photos)} photos; give each result its photo")
    with store or Store() as files:
        statistics = []
        for paths in (results, styles):
            files.extract(encoder, paths, lambda stage, done, total: None)
            if files.problems:
                raise InputError(next(iter(files.problems.values())))
            statistics.append(Statistics(DIMENSIONS))
            for path in paths:
                statistics[-1].add(files.map(encoder, path).mean(0))
        pairs = [EvaluatedPicture(f"{i}", *both) for i, both in enumerate(zip(results, photos, strict=True))]
        values = files.distances(
            f"lpips {lpips.net} {lpips.fingerprint}",
            lpips.of_levels,
            pairs,
            None,
            lambda stage, done, total: None,
        )
        if files.problems:
            raise InputError(next(iter(files.problems.values())))
    style, content = fid(*statistics), sum(values.values()) / len(values)
    return {"fid": style, "lpips": content, "artfid": artfid(style, content)}
