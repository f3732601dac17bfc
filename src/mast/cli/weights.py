"""mast weights list | fetch NAME | path NAME."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..job import InputError
from .console import download_bar, out, size_text
from .options import Quiet, group

weights = group("Weights of metrics, methods and segmenters: what is here, and getting more.")


@weights.command("list")
def list_command() -> None:
    """Every known weight: whether it is here, its size, licence and sources."""
    from ..weights.registry import KNOWN, local, weights_folder

    table = Table("weight", "here", "size", "licence", "about", box=None)
    for weight in KNOWN:
        size = weight.sources[-1].bytes
        here = "yes" if local(weight.name) else "no"
        table.add_row(weight.name, here, size_text(size) if size else "?", weight.licence, weight.about)
    out.print(table)
    for weight in KNOWN:
        for source in weight.sources:
            out.print(Text(f"{weight.name}: {source.where}", "dim"), soft_wrap=True)
    out.print(Text(f"kept in {weights_folder()}", "dim"), soft_wrap=True)


@weights.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAMES", help="Names from `mast weights list`.")],
    quiet: Quiet = False,
) -> None:
    """Gets weights into the cache folder and checks them; those that are there and whole are left alone."""
    from ..weights.registry import fetch, known

    for name in names:
        known(name)
    for name in names:
        with download_bar(quiet) as bar:
            path = fetch(name, bar)
        print(path)


@weights.command("path")
def path_command(name: Annotated[str, typer.Argument(help="A name from `mast weights list`.")]) -> None:
    """Prints where a weight is."""
    from ..weights.registry import known, local, weights_folder

    path = local(name)
    if path is None:
        files = " or ".join(source.file for source in known(name).sources)
        raise InputError(
            f"{name}: not here; run `mast weights fetch {name}`, or put {files} into {weights_folder()}"
        )
    print(path)
