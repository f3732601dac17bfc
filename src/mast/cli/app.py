"""The app and what its commands share: words on stderr, and a progress bar that any run can feed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..job import OnStep
from ..job import Progress as Step
from ..pipeline.provenance import mast_version

app = typer.Typer(
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Regional multi-style transfer: every part of a photo in the style of its own painting.",
)


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"mast {mast_version()}")
        raise typer.Exit()


console = Console(stderr=True, highlight=False, emoji=False)


def say(text: str) -> None:
    """A line on stderr, in rich's markup (escape what a user wrote); stdout is for results."""
    console.print(text, soft_wrap=True)


class _SecondsPerStep(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{1 / task.speed:.2f} s/step" if task.speed else "", style="dim")


NAMES = {"invert": "inverting", "denoise": "repainting"}


@contextmanager
def progress(quiet: bool) -> Iterator[OnStep]:
    """A bar per stage: steps done, seconds per step, time left. Yields the callback that feeds it."""
    if quiet:
        yield lambda step: None
        return
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        _SecondsPerStep(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=False) as bar:
        tasks: dict[str, Any] = {}

        def on_step(step: Step) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = bar.add_task(NAMES.get(step.stage, step.stage), total=step.total)
            bar.update(tasks[step.stage], completed=step.done, total=step.total)

        yield on_step


from . import analyze, bench, bench_run, compare, demo, evaluate, figures, replay, stylize, tools, weights  # noqa: E402, F401  (commands register themselves)
