"""A benchmark of a few small pictures, plans that run it on a tiny model, and what a run left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mast.bench.data.manifest import BenchRegion, BenchSample, File, Header, Manifest, read, write
from mast.bench.run.dispatch import Crew, InProcess, Summary, run
from mast.bench.run.order import select
from mast.bench.run.worker import BenchPlan, Outcome
from mast.bench.variants import parse_variant
from mast.files import sha256
from tests.random_networks import write_inception, write_lpips
from tests.tiny import halves, picture


def make_bench(folder: Path, contents: int = 2, tuples: int = 2, spoiled: tuple[str, ...] = ()) -> Path:
    """Every photo with every pair of styles, 64 px; a file named in `spoiled` is no picture at all."""
    folder.mkdir(parents=True)

    def keep(name: str, image: Image.Image) -> File:
        path = folder / name
        image.save(path)
        if name in spoiled:
            path.write_bytes(b"no picture")
        return File(path, sha256(path))

    masks = [
        keep(f"mask{i}.png", Image.fromarray((m * 255).astype(np.uint8)))
        for i, m in enumerate(halves(64, 64))
    ]
    photos = [keep(f"photo{i}.png", picture(64, 64, i)) for i in range(contents)]
    styles = [keep(f"style{i}.png", picture(64, 64, 100 + i)) for i in range(2 * tuples)]
    samples = tuple(
        BenchSample(
            f"n2-t{t}-photo{c}",
            2,
            t,
            photos[c],
            tuple(BenchRegion(f"half{i}", masks[i], styles[2 * t + i]) for i in range(2)),
        )
        for c in range(contents)
        for t in range(tuples)
    )
    path = folder / "manifest.jsonl"
    write(Manifest(path, Header(0, (2,), contents, 2 * tuples, source="masks"), samples))
    return path


def plan_for(manifest: Path, out: Path, model: Path, *methods: str, **changes: Any) -> BenchPlan:
    """Three steps at 64 px, one thread."""
    variants = tuple(parse_variant(text) for text in methods or ("mast",))
    settings = {"steps": 3, "size": 64, **changes.pop("settings", {})}
    return BenchPlan(
        manifest, out, variants, changes=settings, model=str(model), device="cpu", threads=1, **changes
    )


def run_all(plan: BenchPlan, crew: Crew | None = None, heard: list[Outcome] | None = None) -> Summary:
    samples = select(read(plan.manifest).samples)
    return run(plan, samples, crew or InProcess(plan), (heard if heard is not None else []).append)


def pictures_of(out: Path) -> dict[str, bytes]:
    """Every picture and record of a run, by its path; nothing else may lie there."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_file() and not name.startswith(".work") and path.suffix in (".png", ".json"):
            found[name] = path.read_bytes()
    return found


def random_metrics(folder: Path) -> tuple[Path, Path]:
    """Files of an Inception and of LPIPS' AlexNet with random weights, as the metrics read them."""
    folder.mkdir(parents=True)
    return write_inception(folder / "inception.pth"), write_lpips(folder / "alexnet.ckpt")
