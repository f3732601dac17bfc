"""What a benchmark run says while it works and when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .app import console, say
from .tools import out

if TYPE_CHECKING:
    from ..bench.data.manifest import BenchSample
    from ..bench.run.dispatch import Crew, Summary, Tell
    from ..bench.run.worker import BenchPlan, Outcome
    from ..tables import Table

EVERY = 30.0  # seconds between two lines where there is no terminal for a bar
LISTED = 10  # failures that are spelled out


def execute(plan: BenchPlan, samples: list[BenchSample], crew: Crew, quiet: bool) -> Summary:
    """The run, with a bar; says how to go on when it was stopped."""
    from ..bench.run.dispatch import run
    from ..bench.run.worker import DiskFull

    meter = Meter(len(samples) * len(plan.variants))
    again = "run the same command again to go on"
    try:
        with progress(meter, quiet) as tell:
            return run(plan, samples, crew, tell)
    except KeyboardInterrupt:
        say(f"{meter.made} pictures made; {again}")
        raise
    except DiskFull as error:
        say(
            f"[bold red]mast:[/] the disk is full ({escape(str(error))}); {meter.made} pictures made, "
            f"nothing half-written is left; free some space (mast cache clear frees the cache) and {again}"
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


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress(meter: Meter, quiet: bool) -> Iterator[Tell]:
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
    columns = (TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=meter.total, pace="")

        def feed(outcome: Outcome) -> None:
            meter.count(outcome)
            bar.update(task, completed=meter.done, pace=meter.pace)
            if outcome.status == "failed":
                bar.console.print(
                    f"[yellow]failed:[/] {outcome.variant}/{outcome.sample}: {escape(outcome.reason)}"
                )

        yield feed


def conclude(plan: BenchPlan, summary: Summary, quiet: bool) -> None:
    """What was done, what failed and why, what others hold."""
    if not quiet:
        for note in summary.notes:
            say(f"[dim]note:[/] {escape(note)}")
        there = summary.count("already")
        say(
            f"[bold]{escape(str(plan.out))}[/]: {summary.count('made')} pictures made"
            + (f", {there} were there already" if there else "")
        )
    if summary.held:
        say(f"{len(summary.held)} pictures are being made by another runner on this folder")
    if summary.failed:
        say(f"[bold yellow]{len(summary.failed)} pictures failed[/] (--retry-failed tries them again):")
        for outcome in summary.failed[:LISTED]:
            say(f"  {outcome.variant}/{outcome.sample}: {escape(outcome.reason)}")
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


def show(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Tables on stdout, notes beside them."""
    from ..tables import terminal

    for table in tables:
        for piece in terminal(table):
            out.print(piece)
        out.print(f"[dim]{escape(table.caption)}[/]\n", soft_wrap=True)
    for note in notes:
        say(f"[yellow]note:[/] {escape(note)}")
