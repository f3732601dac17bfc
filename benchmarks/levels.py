"""Coarse to fine, and windows, against the direct run: time, peak memory, pictures.

    python benchmarks/levels.py [--quick] [--json FILE] [--markdown FILE] [--pictures FOLDER]
        [--model preview,sd-1.4-size] [--sizes 512,1024,2048] [--steps 6] [--windows 1024] [--repeats 1]
        [--ways direct,levels,windows,"windows replay"]

Every run is a process of its own, so that its peak memory is its own. The ways to paint one picture take
turns, and ratios are taken within a turn, then their median. Loading counts in the memory, not in the
seconds. Ratios are of processor time: with OMP_NUM_THREADS=1 they hold on a busy machine, too, where seconds
do not; with more threads, compare seconds.

    direct          at its size at once
    levels          coarse to fine, from the model's own size
    windows         coarse to fine, larger levels in windows (twice the model's own size, unless given)
    windows replay  the same with no features kept: what is held depends on the window only

Two styles on a bundled photo, enlarged to the size; nothing is cached. What needs more memory than is free,
or more than --timeout seconds, is left out. The SD-1.4-size model has random weights: its pictures mean
nothing.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measure import arguments, machine, model, show, write

from mast import Job, Region, default_method, default_settings, stylize
from mast.examples import case_job, examples_folder, load_cases
from mast.pipeline.inputs import read_job
from mast.pipeline.windows import bytes_at_once, free_bytes

CASE = "raccoon-two"
WAYS: dict[str, dict[str, Any]] = {
    "direct": {"coarse": "off", "windows": "off"},
    "levels": {"windows": "off"},
    "windows": {},
    "windows replay": {"features": "replay"},
}


def enlarged(size: int) -> Job:
    """The case with its photo at this size; its masks are fitted by themselves."""
    folder = examples_folder()
    case = next(case for case in load_cases(folder) if case["name"] == CASE)
    job = case_job(case, folder)
    photo = read_job(job).photo
    scale = size / max(photo.size)
    photo = photo.resize((round(photo.width * scale), round(photo.height * scale)))
    return Job(photo, tuple(Region(region.style, region.mask) for region in job.regions))


def one(name: str, size: int, way: str, steps: int, windows: int | None, picture: str | None) -> dict:
    """One run, in this process."""
    backbone = model(name)
    side = {"windows": windows or 2 * backbone.native_size} if way.startswith("windows") else {}
    changes = {"size": size, "steps": steps, "inversion": "refined", "cache": False, **WAYS[way], **side}
    settings = default_settings(backbone, **changes)
    job = enlarged(size)
    if side == {}:
        width, height = job.content.size  # type: ignore[union-attr]
        needed = bytes_at_once(backbone, default_method(backbone), (width, height), len(job.regions))  # type: ignore[arg-type]
        if needed > free_bytes(backbone.device):
            return {"left out": f"needs about {needed / 2**30:.0f} GB"}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    passes = 0

    def count(step: Any) -> None:
        nonlocal passes
        passes += 1

    worked = time.process_time()
    result = stylize(job, backbone, "mast", settings, count)
    worked = time.process_time() - worked
    if picture is not None:
        result.image.save(picture)
    used = result.provenance["settings"]
    seconds = {stage: value for stage, value in result.seconds.items() if stage != "load"}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "coarse": used["coarse"],
        "windows": used.get("windows", "off"),
        "passes": passes,
        "seconds": sum(seconds.values()),
        "processor": worked,
        **{f"{stage}_s": value for stage, value in seconds.items()},
        "peak_rss": peak,
        "above_model": peak - before,
    }


def measured(task: dict[str, Any], timeout: float) -> dict[str, Any]:
    """One run, in a process of its own."""
    try:
        process = subprocess.run(
            [sys.executable, __file__, "--one", json.dumps(task)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *_path()])},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"left out": f"over {timeout:.0f} s"}
    if process.returncode < 0:
        return {"left out": f"killed by signal {-process.returncode}"}
    if process.returncode:
        sys.exit(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


def _path() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []


def summary(turns: list[dict[str, dict[str, Any]]], name: str, size: int, steps: int) -> list[dict[str, Any]]:
    """A row a way: medians, and the median ratio of its time to the direct run's of the same turn."""
    rows = []
    for way in turns[0]:
        runs = [turn[way] for turn in turns if "left out" not in turn[way]]
        ratios = [
            turn[way]["processor"] / turn["direct"]["processor"]
            for turn in turns
            if "left out" not in turn[way] and "processor" in turn.get("direct", {})
        ]
        first = runs[0] if runs else {}
        rows.append(
            {
                "model": name,
                "size": size,
                "steps": steps,
                "way": way,
                "levels from": first.get("coarse", turns[0][way].get("left out")),
                "window": first.get("windows"),
                "passes": first.get("passes"),
                "seconds": statistics.median(run["seconds"] for run in runs) if runs else None,
                "processor s": statistics.median(run["processor"] for run in runs) if runs else None,
                "processor / direct": statistics.median(ratios) if ratios else None,
                "peak GB": max(run["peak_rss"] for run in runs) / 1e9 if runs else None,
                "above the model GB": max(run["above_model"] for run in runs) / 1e9 if runs else None,
            }
        )
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(cell(value) for value in row.values()) + " |" for row in rows]
    return "\n".join([*lines, "", f"({machine()})", ""])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, as it grows")
    parser.add_argument("--pictures", type=Path, help="keep the pictures in this folder")
    parser.add_argument("--model", default="preview,sd-1.4-size")
    parser.add_argument("--sizes", help="512,1024,2048 unless given")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--windows", type=int, help="pixels; twice the model's own size unless given")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))
    parser.add_argument("--timeout", type=float, default=7200, help="seconds that one run may take")
    parser.add_argument("--one", help="internal: one run as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**json.loads(options.one))))
        return
    sizes = [
        int(size) for size in (options.sizes or ("384" if options.quick else "512,1024,2048")).split(",")
    ]
    names = ["preview"] if options.quick else options.model.split(",")
    steps = options.steps or (3 if options.quick else 6)
    windows = options.windows or (256 if options.quick else None)
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
    ways = options.ways.split(",")
    if unknown := set(ways) - WAYS.keys():
        parser.error(f"there is no way {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    rows: list[dict[str, Any]] = []
    for name in names:
        for size in sizes:
            turns: list[dict[str, dict[str, Any]]] = []
            for turn in range(options.repeats):
                turns.append({})
                for way in ways:
                    file = f"{name}-{size}-{way.replace(' ', '-')}.png"
                    keep = str(options.pictures / file) if options.pictures and not turn else None
                    task = {"name": name, "size": size, "way": way, "steps": steps, "windows": windows}
                    turns[-1][way] = measured({**task, "picture": keep}, options.timeout)
                    print(name, size, way, turns[-1][way], file=sys.stderr, flush=True)
            rows += summary(turns, name, size, steps)
            write(rows, options.json)
            if options.markdown is not None:
                options.markdown.write_text(markdown(rows))
    show(rows, "coarse to fine and windows against the direct run; two styles")


if __name__ == "__main__":
    main()
