"""mast bench run: every picture of a benchmark, by every variant of every method. And mast bench sweep."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..job import InputError
from .console import console, duration, loading, note, say, show
from .evaluate import measurer
from .options import (
    METHOD,
    OUTPUT,
    AsJson,
    MetricOptions,
    Quiet,
    RunOptions,
    flag,
    option,
    with_options,
)

if TYPE_CHECKING:
    from ..bench.data.manifest import BenchSample
    from ..bench.run.dispatch import Crew, Summary, Tell
    from ..bench.run.worker import BenchPlan, Outcome
    from ..bench.variants import Variant

WORK = "Sharing the work"
EVERY = 30.0  # seconds between two lines where there is no terminal for a bar
LISTED = 10  # failures that are spelled out


@dataclass(frozen=True)
class BenchOptions:
    """What `run` and `sweep` share beside the options of a run."""

    manifest: Annotated[
        Path, typer.Argument(help="manifest.jsonl, or the folder that mast bench make wrote.")
    ]
    out: Annotated[
        Path,
        option(OUTPUT, "FOLDER", "The run folder; one folder per variant inside.", names=("-o", "--out")),
    ]
    protocol: Annotated[
        str | None,
        option(
            METHOD,
            "NAME",
            "paper: centre squares of 512 px, --preset paper, --composite all, every method as its authors "
            "released it; what is said beside it wins.",
        ),
    ] = None
    composite: Annotated[
        str | None,
        option(METHOD, "HOW", "For one-style methods: all, hard, alpha, poisson or laplacian.", "alpha"),
    ] = None
    shard: Annotated[str, option(WORK, "I/K", "Only the I-th of K parts, 1/K to K/K.")] = "1/1"
    limit: Annotated[
        int | None, option(WORK, "N", "Only the first so many samples, in the order they are made.", min=1)
    ] = None
    workers: Annotated[
        int | None, option(WORK, "N", "Processes (or actors), each with its own model.", "1", min=1)
    ] = None
    threads: Annotated[int | None, option(WORK, "N", "Of each worker.", "its share of the cores", min=1)] = (
        None
    )
    on: Annotated[str, option(WORK, "WHERE", "local, or ray (extra: cluster).")] = "local"
    ray_address: Annotated[
        str | None, option(WORK, "ADDRESS", "Of a Ray cluster.", "RAY_ADDRESS, else this machine")
    ] = None
    retry_failed: Annotated[
        bool, flag("--retry-failed", help="Try samples again that failed before.", panel=WORK)
    ] = False

    def plan(self, variants: list[Variant], run: RunOptions) -> tuple[BenchPlan, list[BenchSample], Crew]:
        """Everything that can be wrong is found before a model is loaded; the run folder is made last."""
        from ..bench.data.manifest import read, verify
        from ..bench.run.order import parse_shard, select
        from ..bench.run.worker import BenchPlan
        from ..bench.variants import as_released, with_composites

        run.check()
        if self.on not in ("local", "ray"):
            raise InputError(f"--on {self.on}: choose local or ray")
        if self.protocol not in (None, "paper"):
            raise InputError(f"--protocol {self.protocol}: there is one, paper; or leave it out")
        composite, preset, changes = self.composite, run.preset, run.changes
        if self.protocol == "paper":
            variants = [as_released(one) for one in variants]
            composite, preset = composite or "all", preset or "paper"
            changes = {"fit": "square", **changes}
        chosen = with_composites(variants, composite)
        found = read(self.manifest)
        samples = select(found.samples, parse_shard(self.shard), self.limit)
        verify(found)
        holding = {file.path.parent.resolve() for sample in found.samples for file in sample.files()}
        for folder in (self.out / one.name for one in chosen):
            if folder.resolve() in holding:
                raise InputError(f"{folder}: holds pictures of the benchmark itself; give another --out")
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
            preset=preset,
            changes=changes,
            model=run.model,
            device=run.device,
            dtype=run.dtype,
            prediction_type=run.prediction_type,
            threads=self.threads,
            retry_failed=self.retry_failed,
            protocol=self.protocol,
        )
        return plan, samples, self._crew(plan)

    def _crew(self, plan: BenchPlan) -> Crew:
        from ..bench.run.dispatch import InProcess
        from ..bench.run.pool import Pool

        if self.on == "ray":
            from ..bench.run.on_ray import RayCrew

            return RayCrew(plan, self.workers, self.ray_address)
        return InProcess(plan) if self.workers in (None, 1) else Pool(plan, self.workers or 1)


@with_options
def run(
    bench: BenchOptions,
    method: Annotated[
        list[str],
        option(
            METHOD,
            "METHOD",
            "METHOD, METHOD:OPTION=VALUE,... or NAME=METHOD:...; several times.",
            names=("-m", "--method"),
        ),
    ] = [],  # noqa: B006
    ablation: Annotated[bool, flag("--ablation", help="Add the paper's four rows.", panel=METHOD)] = False,
    *,
    run: RunOptions,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Makes every picture of MANIFEST by every variant; what is there already is not made again."""
    with loading("the benchmark", quiet):
        from ..bench import variants

        asked = [variants.parse_variant(text) for text in method] + (variants.ablation() if ablation else [])
        if not asked:
            raise InputError("no method given; add --method mast (or --ablation)")
        plan, samples, crew = bench.plan(asked, run)
    began = time.perf_counter()
    summary = execute(plan, samples, crew, quiet)
    if as_json:
        print(json.dumps(as_object(plan, summary, time.perf_counter() - began)))
    else:
        conclude(plan, summary, quiet)
    if summary.failed:
        raise typer.Exit(1)


@with_options
def sweep(
    bench: BenchOptions,
    over: Annotated[
        list[str],
        option(
            METHOD,
            "OPTION=VALUES",
            "lam=0.5,0.2,..., pi=..., r=..., tau=1,1.5,...,sts, or ablation; several times.",
        ),
    ],
    method: Annotated[str, option(METHOD, "METHOD", "What is varied.", names=("-m", "--method"))] = "mast",
    *,
    run: RunOptions,
    metrics: MetricOptions,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Runs a variant for every value, like `mast bench run`; then tables and plots, in the run folder."""
    with loading("the benchmark", quiet):
        from ..bench.data.manifest import read
        from ..bench.report.results import read_runs
        from ..bench.report.scores import measure_all
        from ..bench.report.sweep import parse_sweep, save, table, to_dict
        from ..bench.variants import distinct, parse_variant

        sweeps = [parse_sweep(text, parse_variant(method), bench.composite) for text in over]
        options = metrics.options(run.device, skip_bad=True)  # what is bad comes back by name
        variants = distinct(point.variant for one in sweeps for point in one.points)
        plan, samples, crew = bench.plan(variants, run)
    summary = execute(plan, samples, crew, quiet)
    conclude(plan, summary, quiet)

    if bench.shard != "1/1":
        say("a part of the samples only: the tables come when the sweep is run without --shard")
    else:
        _, runs = read_runs(plan.out, plan.manifest, [one.name for one in variants])
        found = measure_all(read(plan.manifest), runs, measurer(options, quiet))
        written = [path for one in sweeps for path in save(one, found, plan.out)]
        if as_json:
            print(json.dumps([to_dict(one, found) for one in sweeps]))
        else:
            show([table(one, found) for one in sweeps], found.notes)
        if not quiet:
            say(f"written: {', '.join(str(path) for path in written)}")
            if not any(path.suffix == ".png" for path in written):
                note("no plot: it is drawn by matplotlib (pip install 'mast[bench]')", "yellow")
    if summary.failed:
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------ at work


def execute(plan: BenchPlan, samples: list[BenchSample], crew: Crew, quiet: bool) -> Summary:
    """The run, with a bar; says how to go on when it was stopped."""
    from ..bench.run.dispatch import run
    from ..bench.run.worker import DiskFull

    meter = Meter(len(samples) * len(plan.variants))
    again = "run the same command again to go on"
    try:
        with telling(meter, quiet) as tell:
            return run(plan, samples, crew, tell)
    except KeyboardInterrupt:
        say(f"{meter.made} pictures made; {again}")
        raise
    except DiskFull as error:
        say(
            ("mast:", "bold red"),
            f" the disk is full ({error}); {meter.made} pictures made, nothing half-written is left; free "
            f"some space (mast cache clear frees the cache) and {again}",
        )
        raise typer.Exit(1) from error


class Meter:
    """Pictures done, seconds a picture in this run, and how long the rest will take at that."""

    def __init__(self, total: int):
        self.total, self.done, self.made, self.worked = total, 0, 0, 0
        self.began = 0.0  # when the first picture was, which is not before a model is loaded

    def count(self, outcome: Outcome) -> None:
        if not self.worked:
            self.began = time.monotonic() - outcome.seconds
        self.done += outcome.status != "held"
        self.made += outcome.status == "made"
        self.worked += outcome.status in ("made", "failed")

    @property
    def pace(self) -> str:
        if not self.worked:
            return ""
        each = (time.monotonic() - self.began) / self.worked
        return f"{each:.1f} s/picture, {duration(each * (self.total - self.done))} left"


@contextmanager
def telling(meter: Meter, quiet: bool) -> Iterator[Tell]:
    """A bar on a terminal, a line now and then elsewhere."""
    if quiet:
        yield meter.count
        return
    if not console.is_terminal:
        last = time.monotonic()

        def line(outcome: Outcome) -> None:
            nonlocal last
            meter.count(outcome)
            if outcome.status in ("made", "failed") and time.monotonic() - last >= EVERY:
                last = time.monotonic()
                say(f"{meter.done} of {meter.total} pictures, {meter.pace}")

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=meter.total, pace="")

        def feed(outcome: Outcome) -> None:
            meter.count(outcome)
            bar.update(task, completed=meter.done, pace=meter.pace)
            if outcome.status == "failed":
                say(("failed:", "yellow"), f" {outcome.variant}/{outcome.sample}: {outcome.reason}")

        yield feed


def conclude(plan: BenchPlan, summary: Summary, quiet: bool) -> None:
    """What was done, what failed and why, what others hold."""
    if not quiet:
        for text in summary.notes:
            note(text)
        there = summary.count("already")
        say(
            (str(plan.out), "bold"),
            f": {summary.count('made')} pictures made" + (f", {there} were there already" if there else ""),
        )
    if summary.held:
        say(f"{len(summary.held)} pictures are being made by another runner on this folder")
    if summary.failed:
        say((f"{len(summary.failed)} pictures failed", "bold yellow"), " (--retry-failed tries them again):")
        for outcome in summary.failed[:LISTED]:
            say(f"  {outcome.variant}/{outcome.sample}: {outcome.reason}")
        if len(summary.failed) > LISTED:
            say(f"  and {len(summary.failed) - LISTED} more, see failed.jsonl")


def as_object(plan: BenchPlan, summary: Summary, seconds: float) -> dict[str, Any]:
    """The same for a program."""
    kinds = {
        "made": ("made",),
        "already": ("already",),
        "failed": ("failed", "failed before"),
        "held": ("held",),
    }
    counts = {
        v.name: {kind: summary.count(*statuses, variant=v.name) for kind, statuses in kinds.items()}
        for v in plan.variants
    }
    return {
        "out": str(plan.out),
        "variants": counts,
        **{kind: summary.count(*statuses) for kind, statuses in kinds.items()},
        "failures": [{"variant": o.variant, "id": o.sample, "reason": o.reason} for o in summary.failed],
        "threads": summary.threads,
        "device": summary.device,
        "seconds": round(seconds, 1),
        "notes": summary.notes,
    }
