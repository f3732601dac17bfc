"""mast models, mast methods, mast cache."""

from __future__ import annotations

import os
import time
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


@app.command()
def methods() -> None:
    """The methods that --method takes."""
    from ..methods import METHODS

    table = Table("method", "about", box=None)
    for name, method in METHODS.items():
        table.add_row(name, method.about)
    out.print(table)


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
