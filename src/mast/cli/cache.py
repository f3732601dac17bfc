"""mast cache list | prune | clear."""

from __future__ import annotations

import time
from typing import Annotated

from rich.table import Table
from rich.text import Text

from .console import console, loading, out, say, size_text, visible
from .options import OUTPUT, group, option

AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

cache = group("What earlier runs left on disk: inversions and features.")


@cache.command("list")
def list_command() -> None:
    """What is kept, oldest use first: of which picture, how large, when last used."""
    with loading("the cache", not console.is_terminal):
        from ..features.cache import Cache

    kept = Cache()
    entries = kept.entries()
    table = Table("kind", "of", "size", "made", "last used", box=None)
    for entry in entries:
        age = time.time() - entry.used
        unit = next(f"{age / span:.0f} {name}" for span, name in AGES if age >= span or span == 1)
        of = Text(visible(entry.about or entry.path.stem[:16]))
        made = "" if entry.made is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.made))
        table.add_row(entry.kind, of, size_text(entry.bytes), made, f"{unit} ago")
    out.print(table)
    total = sum(entry.bytes for entry in entries)
    where = f"in {visible(str(kept.folder))}"
    out.print(
        Text(f"{len(entries)} files, {size_text(total)} of {size_text(kept.limit)}, {where}"), soft_wrap=True
    )


@cache.command()
def prune(
    limit: Annotated[str, option(OUTPUT, "SIZE", "Keep at most this much: bytes, or with K, M, G.")] = "1G",
) -> None:
    """Drops the least recently used until the rest fits."""
    from ..features.cache import Cache, parse_size

    say(f"freed {size_text(Cache().prune(parse_size(limit, '--limit')))}")


@cache.command()
def clear() -> None:
    """Drops everything."""
    from ..features.cache import Cache

    say(f"freed {size_text(Cache().clear())}")
