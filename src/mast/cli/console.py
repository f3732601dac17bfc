"""What commands share: words on stderr, results on stdout, progress bars.

Imports no command, and nothing heavy.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ..files import shown
from ..job import OnStep
from . import STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from ..metrics.store import OnCount
    from ..tables import Table
    from ..weights.registry import OnBytes

console = Console(stderr=True, highlight=False, emoji=False)
out = Console(highlight=False, emoji=False)


# ------------------------------------------------------------------------------------------------ words


def say(*parts: str | tuple[str, str]) -> None:
    """A line on stderr; stdout is for results. A part is plain text, or (text, style): nothing is read as
    markup, so that any file name can be said.
    """
    seen = [visible(part) if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts]
    console.print(Text.assemble(*seen), soft_wrap=True)


def note(text: str, style: str = "dim") -> None:
    say(("note:", style), f" {text}")


def visible(text: str) -> str:
    """With every letter that a terminal would act upon, or could not show, written as its code."""
    return "".join(c if c.isprintable() or c == "\n" else shown(c) for c in text)


def any_name_can_be_printed() -> None:
    """A file's name need not be text in this terminal's encoding: its bytes go out as they are."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape" if encoding == "utf8" else "backslashreplace")


def show(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Tables on stdout, notes beside them."""
    from ..tables import terminal

    for table in tables:
        for piece in terminal(table, out.width):
            out.print(piece)
        out.print(Text(f"{table.caption}\n", style="dim"), soft_wrap=True)
    for text in notes:
        note(text, "yellow")


def size_text(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count = count / 1000
    return f"{count:.2f} GB"


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# ------------------------------------------------------------------------------------------------ starting


@contextmanager
def loading(what: str, quiet: bool = False) -> Iterator[None]:
    """Says at once what takes the first seconds: importing torch, reading, loading a model.

    Nothing is written in it, so Ctrl-C ends the process on the spot; an exception would have to find its way
    out of libraries that are half imported.
    """
    if not quiet:
        say((f"loading {what} ...", "dim"))
    before = {
        number: signal.getsignal(number)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
    }
    ours = [number for number, handler in before.items() if callable(handler)]
    try:
        for number in ours:
            signal.signal(number, _stop_now)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _stop_now(*_: Any) -> None:
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(130)


# ------------------------------------------------------------------------------------------------ bars


@contextmanager
def progress(quiet: bool) -> Iterator[OnStep]:
    """A bar per stage: steps done, seconds per step, time left. Yields the callback that feeds it."""
    if quiet:
        yield lambda step: None
        return
    from ..pipeline.progress import bars

    with bars(console) as on_step:
        yield on_step


@contextmanager
def counting(quiet: bool) -> Iterator[OnCount]:
    """A bar per stage: pictures, or draws, done and to do."""
    if quiet or not console.is_terminal:
        yield lambda stage, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    label = TextColumn("{task.description:>10}", markup=False)
    with _bars(label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True) as feed:
        yield feed


@contextmanager
def download_bar(quiet: bool = False) -> Iterator[OnBytes]:
    """A bar per download: bytes so far, bytes in all, speed. On no terminal, a line when one begins."""
    if quiet:
        yield lambda what, done, total: None
        return
    if not console.is_terminal:
        begun: set[str] = set()

        def announce(what: str, done: int, total: int) -> None:
            if what not in begun:
                begun.add(what)
                say(f"{what} ({size_text(total)})" if total else what)

        yield announce
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    label = TextColumn("{task.description}", markup=False)
    with _bars(label, BarColumn(), DownloadColumn(), TransferSpeedColumn(), transient=True) as feed:
        yield feed


@contextmanager
def _bars(*columns: Any, transient: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A line for each thing that is counted, from its first count on; without a count there is none."""
    from rich.progress import Progress

    bar: Progress | None = None
    tasks: dict[str, Any] = {}

    def feed(what: str, done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = Progress(*columns, console=console, transient=transient)
            bar.start()
        if what not in tasks:
            tasks[what] = bar.add_task(visible(what), total=total or None)
        bar.update(tasks[what], completed=done, total=total or None)

    try:
        yield feed
    finally:
        if bar is not None:
            bar.stop()
