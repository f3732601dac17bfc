"""Measuring collections from the command line: networks fetched and counted with bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from .app import say
from .evaluate import counting
from .weights import download_bar

if TYPE_CHECKING:
    from ..bench.report.scores import Measure
    from ..metrics import Collection, Evaluation, Networks, Options


def measurer(options: Options, quiet: bool) -> Measure:
    """`evaluate` with these options, as the benchmark's tables call it: a line and a bar for each.

    The networks are loaded with the first collection and serve all.
    """
    from ..metrics import evaluate, load_networks

    loaded: Networks | None = None

    def measure(what: str, found: Collection) -> Evaluation:
        nonlocal loaded
        if not quiet:
            say(f"[dim]measuring {escape(what)}: {len(found.samples)} results[/]")
        with download_bar(quiet) as on_bytes, counting(quiet) as on_count:
            loaded = loaded or load_networks(options, on_bytes)
            return evaluate(found, options, on_count, networks=loaded)

    return measure
