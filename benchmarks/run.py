"""Whole runs against the bare U-Net passes they consist of.

    python benchmarks/run.py [--quick] [--json FILE] [--model preview|sd-1.4-size] [--size 512] [-n 1,2,5,16]

Every row runs in a process of its own. `bare_s` is what the run's U-Net passes would take with
nothing around them: the median of bare passes measured before and after, times their number.
`ratio` is (invert + denoise) by bare_s; `step_ratio` one controlled denoising step by one bare
pass. Modes: cold (nothing known), warm (features on disk), replay (features computed again at each
step). The SD-1.4-size model has random weights: its pictures mean nothing.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import arguments, model, show, write
from PIL import Image

from mast import Job, Mast, Progress, Region, Settings, stylize
from mast.backbone.backbone import Backbone


def job(n: int, size: tuple[int, int]) -> Job:
    """A noise photo and N noise styles whose regions are vertical bands."""
    rng = np.random.default_rng(0)

    def picture() -> Image.Image:
        return Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).resize(
            size, Image.Resampling.BICUBIC
        )

    photo, styles = picture(), [picture() for _ in range(n)]
    regions = []
    for i, style in enumerate(styles):
        mask = np.zeros((size[1], size[0]), np.float32)
        mask[:, i * size[0] // n : (i + 1) * size[0] // n] = 1
        regions.append(Region(style, mask))
    return Job(photo, tuple(regions))


def bare_pass(backbone: Backbone, size: tuple[int, int], repeats: int) -> list[float]:
    stride = backbone.latent_stride
    latent = torch.randn(1, backbone.unet.config.in_channels, size[1] // stride, size[0] // stride)
    times = []
    with torch.inference_mode():
        for _ in range(repeats + 1):
            began = time.perf_counter()
            backbone.predict(latent, 501)
            times.append(time.perf_counter() - began)
    return times[1:]


def one(name: str, size: tuple[int, int], n: int, steps: int, mode: str, refined: bool) -> dict:
    backbone = model(name)
    given = job(n, size)
    settings = Settings(
        steps=steps,
        inversion="refined" if refined else "plain",
        size=max(size),
        features="replay" if mode == "replay" else "memory",
        cache=mode == "warm",
    )
    if mode == "warm":
        stylize(given, backbone, Mast(), settings)
    bare = bare_pass(backbone, size, 2)
    passes = {"invert": 0, "denoise": 0}

    def count(progress: Progress) -> None:
        passes[progress.stage] += 1

    result = stylize(given, backbone, Mast(), settings, count)
    bare += bare_pass(backbone, size, 2)
    once = statistics.median(bare)
    # Replay makes one reference pass per picture and step inside the denoising stage.
    inside = passes["denoise"] * (n + 2 if mode == "replay" else 1)
    total = passes["invert"] + inside
    work = result.seconds["invert"] + result.seconds["denoise"]
    return {
        "model": name, "size": f"{size[0]}x{size[1]}", "n": n, "steps": steps, "mode": mode, "passes": total,
        **{f"{stage}_s": seconds for stage, seconds in result.seconds.items() if stage != "load"},
        "pass_s": once, "bare_s": once * total, "ratio": work / (once * total),
        "step_ratio": result.seconds["denoise"] / (once * inside),
        "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", help="only this one")
    parser.add_argument("--size", default="512", help="512, or 1024x768")
    parser.add_argument("--steps", type=int)
    parser.add_argument("-n", default=None, help="numbers of styles, as 1,2,5")
    parser.add_argument("--mode", help="only this one")
    parser.add_argument("--one", help="internal: one row as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**json.loads(options.one))))
        return
    width, _, height = options.size.partition("x")
    size = (int(width), int(height or width))
    rows = []
    for name in [options.model] if options.model else ["preview", "sd-1.4-size"]:
        small = name == "preview"
        steps = options.steps or ((6 if options.quick else 20) if small else 2 if options.quick else 4)
        counts = [
            int(n)
            for n in (options.n or ("2" if options.quick else "1,2,5,16" if small else "1,2,5")).split(",")
        ]
        for n in counts:
            modes = (
                [options.mode]
                if options.mode
                else ["cold"]
                if options.quick and not small
                else ["cold", "warm", "replay"]
            )
            for mode in modes:
                row = {"name": name, "size": size, "n": n, "steps": steps, "mode": mode, "refined": small}
                with tempfile.TemporaryDirectory() as folder:
                    process = subprocess.run(
                        [sys.executable, __file__, "--one", json.dumps(row)],
                        env={**os.environ, "MAST_CACHE": folder, "PYTHONPATH": str(Path(__file__).parent)},
                        capture_output=True,
                        text=True,
                    )
                if process.returncode:
                    sys.exit(process.stderr)
                rows.append(json.loads(process.stdout.splitlines()[-1]))
                print(rows[-1], file=sys.stderr, flush=True)
    show(rows, "whole runs; seconds, bytes, ratios to bare U-Net passes")
    write(rows, options.json)


if __name__ == "__main__":
    main()
