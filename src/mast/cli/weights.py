"""mast weights list | fetch NAME | path NAME."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from ..job import InputError
from ..weights.registry import OnBytes
from .app import app, console, say
from .tools import out, size_text

weights_app = typer.Typer(
    no_args_is_help=True, help="Weights of metrics, methods and segmenters: what is here, and getting more."
)
app.add_typer(weights_app, name="weights")


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
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def feed(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done)

        yield feed


@weights_app.command("list")
def weights_list() -> None:
    """Every known weight: whether it is here, its size, licence and sources."""
    from ..weights.registry import KNOWN, local, weights_folder

    table = Table("weight", "here", "size", "licence", "about", box=None)
    for weight in KNOWN:
        size = weight.sources[-1].bytes
        table.add_row(
            weight.name,
            "yes" if local(weight.name) else "no",
            size_text(size) if size else "?",
            weight.licence,
            weight.about,
        )
    out.print(table)
    for weight in KNOWN:
        for source in weight.sources:
            out.print(f"[dim]{weight.name}: {source.where}[/]", soft_wrap=True)
    out.print(f"[dim]kept in {weights_folder()}[/]", soft_wrap=True)


@weights_app.command("fetch")
def weights_fetch(
    names: Annotated[list[str], typer.Argument(help="Names from `mast weights list`.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
) -> None:
    """Gets weights into the cache folder and checks them; those that are there and whole are left alone."""
    from ..weights.registry import fetch, known

    for name in names:
        known(name)
    for name in names:
        with download_bar(quiet) as bar:
            path = fetch(name, bar)
        print(path)


@weights_app.command("path")
def weights_path(name: Annotated[str, typer.Argument(help="A name from `mast weights list`.")]) -> None:
    """Prints where a weight is."""
    from ..weights.registry import known, local, weights_folder

    path = local(name)
    if path is None:
        files = " or ".join(source.file for source in known(name).sources)
        raise InputError(
            f"{name}: not here; run `mast weights fetch {name}`, or put {files} into {weights_folder()}"
        )
    print(path)
