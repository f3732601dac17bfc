"""Progress bars that any run can feed: a bar per stage and level, in a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..job import OnStep, Progress

if TYPE_CHECKING:
    from rich.console import Console

NAMES = {"invert": "inverting", "denoise": "repainting", "paint": "painting"}


def stage_name(step: Progress) -> str:
    """What a stage is called for people; with its level where there are several."""
    name = NAMES.get(step.stage, step.stage)
    return name if step.levels == 1 else f"{name} {step.level + 1}/{step.levels}"


@contextmanager
def bars(console: Console | None = None) -> Iterator[OnStep]:
    """Steps done, seconds per step, time left. Yields the callback that feeds the bars."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
    from rich.progress import Progress as Bars
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.text import Text

    class SecondsPerStep(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{1 / task.speed:.2f} s/step" if task.speed else "", style="dim")

    label = TextColumn("{task.description:>14}")
    bar = Bars(label, BarColumn(), MofNCompleteColumn(), SecondsPerStep(), TimeLeft(), console=console)
    tasks: dict[str, Any] = {}

    def on_step(step: Progress) -> None:
        if not tasks:
            bar.start()  # a run that is refused, or has nothing to do, shows no bar and leaves no empty line
        name = stage_name(step)
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=step.total)
        bar.update(tasks[name], completed=step.done, total=step.total)

    try:
        yield on_step
    finally:
        if tasks:
            bar.stop()


def both(first: OnStep, second: OnStep) -> OnStep:
    """Tells one callback after the other."""

    def on_step(step: Progress) -> None:
        first(step)
        second(step)

    return on_step
