"""mast methods and mast models: what there is, what it needs, whose it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from .console import console, loading, note, out
from .options import flag

WIDE = 150  # columns from which each fact about a method has a column of its own


def methods(
    as_json: Annotated[bool, flag("--json", help="Print a JSON list on stdout.")] = False,
) -> None:
    """The methods that --method takes: what they know of regions, what they need, whose they are."""
    with loading("the methods", as_json or not console.is_terminal):
        from ..methods import METHODS, option_names

    facts = ("family", "needs", "licence", "reference", "about", "released_changes")
    rows = [{"method": name, **{fact: getattr(m, fact) for fact in facts}} for name, m in METHODS.items()]
    if as_json:
        options = [{"options": option_names(method)} for method in METHODS.values()]
        print(json.dumps([{**row, **more} for row, more in zip(rows, options, strict=True)], indent=1))
        return
    page = Console(highlight=False, emoji=False)  # as wide as the terminal is now
    wide = page.width >= WIDE
    names = ("method", "family", "needs", "licence", "how it works, and whose it is")
    table = Table(*(names if wide else names[:1]), box=None, pad_edge=False, show_header=wide)
    table.columns[0].no_wrap = True
    if wide:  # an address is one long word
        table.columns[2].width = max(len(word) for row in rows for word in row["needs"].split())
    for row in rows:
        name, family, needs, licence, reference, about, changes = row.values()
        how = Text(about).append(f"\nreleased=on: {changes}" if changes else "")
        how.append(f"\n{reference}" if reference else "", "dim")
        brief = Text(f"{family}; needs: {needs}; licence: {licence}\n").append_text(how)
        cells = [Text(family), Text(needs), Text(licence), how] if wide else [brief]
        table.add_row(Text(name, "bold"), *cells)
    page.print(table)
    note(
        "released=on, as in styleid:released=on, does as the authors' published code does, and joins regions "
        "by OpenCV's plain clone where --composite is poisson; see docs/methods.md"
    )


def models() -> None:
    """Known models, their licence, and whether they are on this machine."""
    with loading("the models", not console.is_terminal):
        from ..backbone.load import KNOWN

    table = Table(Column("model", no_wrap=True), "here", "licence", "about", box=None)
    for model in KNOWN:
        here = "yes" if model.name == "preview" or _cached(model.name) else "no"
        table.add_row(model.name, here, model.licence, model.about)
    out.print(table)
    out.print("[dim]--model also takes a diffusers folder or an SD 1.x .safetensors/.ckpt file[/]")


def _cached(name: str) -> bool:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    return any((hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/unet/config.json"))
