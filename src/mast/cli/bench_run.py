"""mast bench run: every picture of a benchmark, by every variant of every method. And mast bench sweep."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..job import PRESETS, InputError, Settings
from .app import say
from .bench import bench_app
from .bench_progress import as_object, conclude, execute, show
from .measuring import measurer
from .requests import with_request

if TYPE_CHECKING:
    from ..bench.data.manifest import BenchSample
    from ..bench.run.dispatch import Crew
    from ..bench.run.worker import BenchPlan
    from ..bench.variants import Variant


@dataclass(frozen=True)
class BenchOptions:
    """The options that `run` and `sweep` share; see `with_request`."""

    manifest: Annotated[
        Path, typer.Argument(help="manifest.jsonl, or the folder that mast bench make wrote.")
    ]
    out: Annotated[Path, typer.Option("-o", "--out", help="The run folder; one folder per variant inside.")]
    model: Annotated[str, typer.Option(help="preview, a hub id, a folder or a checkpoint file.")] = "preview"
    preset: Annotated[
        str | None, typer.Option(help="paper (50 steps) or fast; the model's own if not given.")
    ] = None
    steps: Annotated[int | None, typer.Option(help="Timesteps of the schedule.")] = None
    inversion: Annotated[str | None, typer.Option(help="plain (paper) or refined.")] = None
    size: Annotated[int | None, typer.Option(help="Longer side at which the model works.")] = None
    fit: Annotated[str | None, typer.Option(help="resize or pad to the model's stride.")] = None
    features: Annotated[str | None, typer.Option(help="auto, memory or replay.")] = None
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep and use inversions on disk.")] = True
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto"
    dtype: Annotated[str, typer.Option(help="auto, float32, float16, bfloat16.")] = "auto"
    prediction_type: Annotated[str | None, typer.Option(help="Overrides the model's scheduler config.")] = (
        None
    )
    composite: Annotated[
        str | None, typer.Option(help="For single-style methods: all, hard, alpha, poisson or laplacian.")
    ] = None
    shard: Annotated[str, typer.Option(help="i/k: only the i-th of k parts, 1/k to k/k.")] = "1/1"
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many samples, in the order they are made.")
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes (or actors), each with its own model.")
    ] = None
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each worker; its share of the cores if not given.")
    ] = None
    on: Annotated[str, typer.Option(help="local, or ray (extra: cluster).")] = "local"
    ray_address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; else RAY_ADDRESS, else this machine.")
    ] = None
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try samples again that failed before.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False

    @property
    def changes(self) -> dict[str, Any]:
        """Of the settings."""
        names = ("steps", "inversion", "size", "fit", "features")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return given if self.cache else {**given, "cache": False}

    def prepare(self, variants: list[Variant]) -> tuple[BenchPlan, list[BenchSample], Crew]:
        """Every check that can be made before a model is loaded; then what to do, and who does it."""
        from ..bench.data.manifest import read, verify
        from ..bench.run.order import parse_shard, select
        from ..bench.run.worker import BenchPlan
        from ..bench.variants import with_composites

        if self.preset is not None and self.preset not in PRESETS:
            raise InputError(f"preset {self.preset!r} is not known; choose one of {', '.join(PRESETS)}")
        if self.on not in ("local", "ray"):
            raise InputError(f"--on {self.on}: choose local or ray")
        Settings().with_(**self.changes)
        chosen = with_composites(variants, self.composite)
        found = read(self.manifest)
        samples = select(found.samples, parse_shard(self.shard), self.limit)
        verify(found)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.out}: cannot be a folder ({error.strerror}); give another --out"
            ) from error
        plan = BenchPlan(
            manifest=found.path,
            out=self.out.resolve(),
            variants=tuple(chosen),
            preset=self.preset,
            changes=self.changes,
            model=self.model,
            device=self.device,
            dtype=self.dtype,
            prediction_type=self.prediction_type,
            threads=self.threads,
            retry_failed=self.retry_failed,
        )
        return plan, samples, self._crew(plan)

    def _crew(self, plan: BenchPlan) -> Crew:
        from ..bench.run.dispatch import InProcess
        from ..bench.run.pool import Pool

        if self.on == "ray":
            from ..bench.run.on_ray import RayCrew

            return RayCrew(plan, self.workers, self.ray_address)
        return InProcess(plan) if self.workers in (None, 1) else Pool(plan, self.workers or 1)


@bench_app.command("run")
@with_request
def run(
    request: BenchOptions,
    method: Annotated[
        list[str], typer.Option("-m", "--method", help="METHOD, METHOD:OPTION=VALUE,... or NAME=METHOD:...")
    ] = [],  # noqa: B006
    ablation: Annotated[bool, typer.Option("--ablation", help="Add the paper's four rows.")] = False,
) -> None:
    """Makes every picture of MANIFEST by every variant; what is there already is not made again."""
    from ..bench import variants

    asked = [variants.parse_variant(text) for text in method] + (variants.ablation() if ablation else [])
    if not asked:
        raise InputError("no method given; add --method mast (or --ablation)")
    plan, samples, crew = request.prepare(asked)
    began = time.perf_counter()
    summary = execute(plan, samples, crew, request.quiet)
    if request.as_json:
        print(json.dumps(as_object(plan, summary, time.perf_counter() - began)))
    else:
        conclude(plan, summary, request.quiet)
    if summary.failed:
        raise typer.Exit(1)


@bench_app.command("sweep")
@with_request
def sweep(
    request: BenchOptions,
    over: Annotated[
        list[str], typer.Option(help="lam=0.5,0.2,..., pi=..., r=..., tau=1,1.5,...,sts, or ablation.")
    ],
    method: Annotated[str, typer.Option("-m", "--method", help="What is varied.")] = "mast",
    inception: Annotated[str, typer.Option(help="fid, pytorch-fid, or artfid (the paper's scale).")] = "fid",
    inception_weights: Annotated[Path | None, typer.Option(help="Its file, e.g. art_inception.pth.")] = None,
    lpips: Annotated[str, typer.Option(help="The network of LPIPS: alex or vgg.")] = "alex",
    lpips_weights: Annotated[Path | None, typer.Option(help="Its file.")] = None,
    repeats: Annotated[int, typer.Option(help="Draws of R-FID.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of R-FID's draws.")] = 0,
) -> None:
    """Runs a variant for every value, like `mast bench run`; then tables and plots, in the run folder."""
    from ..backbone.device import resolve_device
    from ..bench.data.manifest import read
    from ..bench.report.results import read_runs
    from ..bench.report.scores import measure_all
    from ..bench.report.sweep import parse_sweep, save, table, to_dict
    from ..bench.variants import distinct, parse_variant
    from ..metrics import Options

    sweeps = [parse_sweep(text, parse_variant(method), request.composite) for text in over]
    options = Options(
        inception=inception,
        inception_weights=inception_weights,
        lpips=lpips,
        lpips_weights=lpips_weights,
        repeats=repeats,
        seed=seed,
        device=resolve_device(request.device),
        skip_bad=True,  # what is bad comes back by name
    )
    variants = distinct(point.variant for one in sweeps for point in one.points)
    plan, samples, crew = request.prepare(variants)
    summary = execute(plan, samples, crew, request.quiet)
    conclude(plan, summary, request.quiet)

    if request.shard != "1/1":
        say("a part of the samples only: the tables come when the sweep is run without --shard")
    else:
        _, runs = read_runs(plan.out, plan.manifest, [one.name for one in variants])
        found = measure_all(read(plan.manifest), runs, measurer(options, request.quiet))
        written = [path for one in sweeps for path in save(one, found, plan.out)]
        if request.as_json:
            print(json.dumps([to_dict(one, found) for one in sweeps]))
        else:
            show([table(one, found) for one in sweeps], found.notes)
        if not request.quiet:
            say(f"written: {escape(', '.join(str(path) for path in written))}")
            if not any(path.suffix == ".png" for path in written):
                say("[yellow]note:[/] no plot: it is drawn by matplotlib (pip install 'mast\\[bench]')")
    if summary.failed:
        raise typer.Exit(1)
