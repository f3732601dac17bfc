"""Time and memory of every method against MAST's, on the same job.

    python benchmarks/methods.py [--quick] [--json FILE] [--model preview|sd-1.4-size] [--size 512]
                                 [-n 2,5] [--methods mast,styleid,...] [--rounds 1] [--composite alpha]

Every run is a process of its own, cold (nothing cached), and all methods take their turn in each round.
`seconds` is the run without loading anything: preparing, inverting, repainting, decoding, compositing, the
median over the rounds; `invert_s` is the part of it that a cache would save. `ratio` is the median of
seconds by MAST's seconds of the same round, `rss_ratio` the same of the process' largest memory. Networks
of feed-forward methods have random weights, which cost what trained ones do; pictures mean nothing.
StyleGallery optimises for its own 150 steps (10 with --quick, where its ratio means little).
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

from measure import arguments, model, show, write
from run import job

from mast import METHODS, Settings, stylize
from mast.methods import make
from mast.methods.feedforward.network import FeedForward
from mast.pipeline.stylize import default_method

BESIDE = "mast"


def with_random_networks(method: FeedForward) -> FeedForward:
    """The method with networks of the right shapes; `load` would ask for the authors' files."""
    from mast.methods.feedforward import adaattn, bpc, stylemixer, vgg

    makers = {
        "any-to-any": lambda: {
            "vgg": vgg.Vgg(),
            "adaattn_3": adaattn.AdaAttN(256, adaattn.KEY_PLANES["relu3_1"], adaattn.MAX_SAMPLE),
            "transformer": adaattn.Transformer(),
            "decoder": adaattn.Decoder(),
        },
        "stylemixer": lambda: {"mixer": stylemixer.Mixer()},
        "bpc": lambda: {"encoder": bpc.Encoder(), "decoder": bpc.Decoder(), "matrix": bpc.Matrix()},
    }
    adain = lambda: {"vgg": vgg.Vgg(), "decoder": vgg.Decoder()}
    method._networks.update(makers.get(method.name, adain)())
    return method


def one(method: str, model_name: str, n: int, size: int, steps: int, composite: str, quick: bool) -> dict:
    """One run, as a row without its ratios."""
    options = {"steps": 10} if quick and method == "stylegallery" else {}
    backbone, chosen = "preview", make(method, **options)
    if isinstance(chosen, FeedForward):
        with_random_networks(chosen)
    else:
        backbone = model(model_name)
        chosen = default_method(backbone, method, **options)
    settings = Settings(steps=steps, inversion="refined", size=size, cache=False, composite=composite)
    given = job(n, (size, size))
    began = time.perf_counter()
    result = stylize(given, backbone, chosen, settings)
    return {
        "seconds": time.perf_counter() - began - result.seconds.get("load", 0.0),
        "invert_s": result.seconds.get("encode", 0.0) + result.seconds.get("invert", 0.0),
        "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def in_a_process(**row: object) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, __file__, "--one", json.dumps(row)],
            env={**os.environ, "MAST_CACHE": folder},
            capture_output=True,
            text=True,
        )
    if process.returncode:
        sys.exit(f"{row['method']}: {process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])


def rows_of(names: list[str], n: int, rounds: int, **shared: object) -> list[dict]:
    """All methods at one number of styles; MAST is always among them."""
    runs: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            runs[name].append(in_a_process(method=name, n=n, **shared))
            print(name, n, runs[name][-1], file=sys.stderr, flush=True)

    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[name])

    def ratio(name: str, key: str) -> float:
        pairs = zip(runs[name], runs[BESIDE], strict=True)
        return statistics.median(own[key] / mast[key] for own, mast in pairs)

    return [
        {
            "method": name, "family": METHODS[name].family, "n": n, "size": shared["size"],
            "steps": shared["steps"], "seconds": median(name, "seconds"), "ratio": ratio(name, "seconds"),
            "invert_s": median(name, "invert_s"), "peak_rss": max(run["peak_rss"] for run in runs[name]),
            "rss_ratio": ratio(name, "peak_rss"),
        }
        for name in names
    ]  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="preview")
    parser.add_argument("--size", type=int, help="512; 256 with --quick")
    parser.add_argument("--steps", type=int, help="12; 4 with --quick")
    parser.add_argument("-n", help="numbers of styles; 2,5, or 2 with --quick")
    parser.add_argument("--methods", help="names with commas; all but reconstruct if not given")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--composite", default="alpha")
    parser.add_argument("--one", help="internal: one run as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**json.loads(options.one))))
        return
    asked = options.methods.split(",") if options.methods else [m for m in METHODS if m != "reconstruct"]
    for name in asked:
        make(name)
    names = [BESIDE, *[name for name in asked if name != BESIDE]]
    shared = {
        "model_name": options.model,
        "size": options.size or (256 if options.quick else 512),
        "steps": options.steps or (4 if options.quick else 12),
        "composite": options.composite,
        "quick": options.quick,
    }
    counts = [int(n) for n in (options.n or ("2" if options.quick else "2,5")).split(",")]
    rows = [row for n in counts for row in rows_of(names, n, options.rounds, **shared)]
    show(rows, f"methods on {options.model}, cold; seconds, bytes, ratios to {BESIDE}")
    write(rows, options.json)


if __name__ == "__main__":
    main()
