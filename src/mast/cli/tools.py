"""mast models, mast methods, mast cache."""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from .app import app, say

out = Console(highlight=False, emoji=False)


@app.command()
def models() -> None:
    """Known models, their licence, and whether they are on this machine."""
    from ..backbone.load import KNOWN

    table = Table(Column("model", no_wrap=True), "here", "licence", "about", box=None)
    for model in KNOWN:
        table.add_row(
            model.name,
            "yes" if model.name == "preview" or _cached(model.name) else "no",
            model.licence,
            model.about,
        )
    out.print(table)
    out.print("[dim]--model also takes a diffusers folder or an SD 1.x .safetensors/.ckpt file[/]")


def _cached(name: str) -> bool:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    return any((hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/unet/config.json"))


WIDE = 150  # columns from which each fact about a method has a column of its own


@app.command()
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout.")] = False,
) -> None:
    """The methods that --method takes: what they know of regions, what they need, whose they are."""
    from ..methods import METHODS

    facts = ("family", "needs", "licence", "reference", "about")
    rows = [{"method": name, **{fact: getattr(m, fact) for fact in facts}} for name, m in METHODS.items()]
    if as_json:
        for row, method in zip(rows, METHODS.values(), strict=True):
            row["options"] = [f.name for f in fields(method) if f.init]  # type: ignore[arg-type]
        print(json.dumps(rows, indent=1))
        return
    page = Console(highlight=False, emoji=False)  # as wide as the terminal is now
    wide = page.width >= WIDE
    names = ("method", "family", "needs", "licence", "how it works, and whose it is")
    table = Table(*(names if wide else names[:1]), box=None, pad_edge=False, show_header=wide)
    table.columns[0].no_wrap = True
    if wide:  # an address is one long word
        table.columns[2].width = max(len(word) for row in rows for word in row["needs"].split())
    for row in rows:
        name, family, needs, licence, reference, about = (escape(value) for value in row.values())
        how = f"{about}\n[dim]{reference}[/]" if reference else about
        brief = f"{family}; needs: {needs}; licence: {licence}\n{how}"
        table.add_row(f"[bold]{name}[/]", *([family, needs, licence, how] if wide else [brief]))
    page.print(table)


cache_app = typer.Typer(no_args_is_help=True, help="What earlier runs left on disk: inversions and features.")
app.add_typer(cache_app, name="cache")


@cache_app.command("list")
def cache_list() -> None:
    """What is kept, oldest use first."""
    from ..features.cache import Cache

    cache = Cache()
    entries = cache.entries()
    table = Table("kind", "name", "size", "last used", box=None)
    for entry in entries:
        age = time.time() - entry.used
        unit = next(
            f"{age / span:.0f} {name}"
            for span, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
            if age >= span or span == 1
        )
        table.add_row(entry.kind, entry.path.stem[:16], size_text(entry.bytes), f"{unit} ago")
    out.print(table)
    total = sum(entry.bytes for entry in entries)
    where = f"in {escape(str(cache.folder))}"
    out.print(
        f"{len(entries)} files, {size_text(total)} of {size_text(cache.limit)}, {where}", soft_wrap=True
    )


@cache_app.command()
def prune(
    limit: Annotated[str, typer.Option(help="Keep at most this much: bytes, or with K, M, G.")] = "1G",
) -> None:
    """Drops the least recently used until the rest fits."""
    from ..features.cache import Cache, parse_size

    say(f"freed {size_text(Cache().prune(parse_size(limit, '--limit')))}")


@cache_app.command()
def clear() -> None:
    """Drops everything."""
    from ..features.cache import Cache

    say(f"freed {size_text(Cache().clear())}")


def size_text(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:.2f} GB"
