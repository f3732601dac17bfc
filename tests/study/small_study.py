"""Small studies: one of coloured pictures, without any model; and a benchmark to make a real one from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from PIL import Image

import mast.study.folder
from mast.bench.data.manifest import BenchRegion, BenchSample, File, Header, Manifest, write
from mast.files import sha256
from mast.study.folder import (
    PICTURES,
    TEXT_NAMES,
    TEXTS,
    RatedPicture,
    Study,
    StudyCase,
    StudyRegion,
    write_study,
)
from tests.tiny import picture

METHODS = ("alpha", "beta", "gamma", "delta")
OURS = Path(mast.study.folder.__file__).parent


def small_study(folder: Path, methods: tuple[str, ...] = METHODS, numbers: tuple[int, ...] = (2, 3)) -> Study:
    """A case for each N; pictures of 96x64, all different."""
    (folder / PICTURES).mkdir(parents=True)
    (folder / TEXTS).mkdir()
    hashes: dict[str, str] = {}

    def keep(*what: object) -> str:
        name = hashlib.sha256(repr(what).encode()).hexdigest()[:16] + ".png"
        picture(96, 64, len(hashes)).save(folder / PICTURES / name)
        hashes[name] = sha256(folder / PICTURES / name)
        return name

    def case(name: str, n: int, methods: tuple[str, ...]) -> StudyCase:
        regions = tuple(StudyRegion(f"part {i}", "#4363d8", keep(name, "style", i)) for i in range(n))
        outputs = tuple(RatedPicture(keep(name, m)[:-4], m, f"{m}-variant") for m in methods)
        return StudyCase(name, n, f"sample-{name}", keep(name, "photo"), keep(name, "map"), regions, outputs)

    cases = tuple(case(f"case-{i + 1}", n, methods) for i, n in enumerate(numbers))
    practice = case("practice", 2, methods[:1])
    study = Study(folder, "A small study", 0, methods, cases, practice, "0" * 64, hashes=hashes)
    for name in TEXT_NAMES:
        (folder / TEXTS / f"{name}.md").write_text((OURS / TEXTS / f"{name}.md").read_text())
    write_study(study, folder)
    return study


def make_mixed_bench(folder: Path) -> Path:
    """Samples of two and of three regions: bands of 64 px photos, every photo with two tuples of styles."""
    folder.mkdir(parents=True)

    def keep(name: str, image: Image.Image) -> File:
        image.save(folder / name)
        return File(folder / name, sha256(folder / name))

    samples = []
    photos = [keep(f"photo{i}.png", picture(64, 64, i)) for i in range(2)]
    for n in (2, 3):
        edges = [round(64 * i / n) for i in range(n + 1)]
        masks = []
        for i in range(n):
            mask = np.zeros((64, 64), np.uint8)
            mask[:, edges[i] : edges[i + 1]] = 255
            masks.append(keep(f"mask{n}-{i}.png", Image.fromarray(mask)))
        for t in range(2):
            styles = [keep(f"style{n}-{t}-{i}.png", picture(64, 64, 100 * n + 10 * t + i)) for i in range(n)]
            for c, photo in enumerate(photos):
                regions = tuple(BenchRegion(f"band{i}", masks[i], styles[i]) for i in range(n))
                samples.append(BenchSample(f"n{n}-t{t}-photo{c}", n, t, photo, regions))
    path = folder / "manifest.jsonl"
    write(Manifest(path, Header(0, (2, 3), 2, 10, source="masks"), tuple(samples)))
    return path
