"""Whole runs against the bare U-Net passes they consist of.

    python benchmarks/run.py [--quick] [--json FILE] [--model preview|sd-1.4-size] [--size 512] [-n 1,2,5,16]

Every row runs in a process of its own. After every U-Net pass of the run a bare pass of the same batch
is made and timed, so that both meet the same machine; its time is taken out of the run's. `bare_s` is
what the run's passes would take with nothing around them. `ratio` is (invert + denoise) by bare_s;
`step_ratio` the controlled denoising steps by their bare passes. Loading, encoding and decoding are
left out. Modes: cold (nothing known), warm (features on disk), replay (features computed again at each
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

from mast import Job, Mast, Region, Settings, stylize
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


class Bare:
    """Bare passes, made between those of a run; seconds by stage."""

    def __init__(self, backbone: Backbone, size: tuple[int, int]):
        stride = backbone.latent_stride
        self.backbone = backbone
        self.latent = torch.randn(1, backbone.unet.config.in_channels, size[1] // stride, size[0] // stride)
        self.times: dict[str, list[float]] = {"warm-up": [], "invert": [], "denoise": []}
        self.once("warm-up")

    @torch.inference_mode()
    def once(self, stage: str) -> None:
        began = time.perf_counter()
        self.backbone.predict(self.latent, 501)
        self.times[stage].append(time.perf_counter() - began)


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
    bare = Bare(backbone, size)
    result = stylize(given, backbone, Mast(), settings, lambda progress: bare.once(progress.stage))
    spent = {stage: sum(times) for stage, times in bare.times.items()}
    # Replay makes one reference pass per picture and step inside the denoising stage.
    inside = n + 2 if mode == "replay" else 1
    seconds = {
        **result.seconds,
        **{stage: result.seconds[stage] - spent[stage] for stage in ("invert", "denoise")},
    }
    bare_s = spent["invert"] + inside * spent["denoise"]
    return {
        "model": name, "size": f"{size[0]}x{size[1]}", "n": n, "steps": steps, "mode": mode,
        "passes": len(bare.times["invert"]) + inside * len(bare.times["denoise"]),
        **{f"{stage}_s": value for stage, value in seconds.items() if stage != "load"},
        "pass_s": statistics.median(bare.times["invert"] + bare.times["denoise"]), "bare_s": bare_s,
        "ratio": (seconds["invert"] + seconds["denoise"]) / bare_s,
        "step_ratio": seconds["denoise"] / (inside * spent["denoise"]),
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
