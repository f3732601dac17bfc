"""What an analysis leaves behind: OUT.json (the numbers), OUT.md (the table) and OUT.png (the figure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..files import atomic, check_output
from ..images import save_png
from ..job import InputError
from ..tables import Table, piped, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image

TextRow: TypeAlias = "tuple[str, ...]"
SUFFIXES = (".json", ".md", ".png")


@dataclass
class AnalysisReport:
    """title and table for people, notes on how it was measured, and the numbers for programs."""

    title: str
    header: tuple[str, ...]
    rows: list[TextRow]
    data: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def table(self) -> Table:
        """For whoever prints it."""
        return text_table("analysis", self.title, self.header, self.rows)

    def save(self, outputs: dict[str, Path], figure: Figure | Image.Image) -> None:
        """outputs: what `check_outputs` returned. The JSON comes last: where it is, all is."""
        with atomic(outputs[".md"]) as part:
            notes = "".join(f"\n- {note}" for note in self.notes)
            part.write_text(f"# {self.title}\n\n{piped(self.table)}" + (f"{notes}\n" if notes else ""))
        if hasattr(figure, "savefig"):
            with atomic(outputs[".png"]) as part:
                figure.savefig(part, format="png", dpi=150, bbox_inches="tight")
        else:
            save_png(figure, outputs[".png"])
        with atomic(outputs[".json"]) as part:
            record = {"title": self.title, **self.data, "notes": self.notes}
            part.write_text(json.dumps(record, indent=1) + "\n")


def check_outputs(
    output: Path, overwrite: bool, suffixes: Sequence[str] = SUFFIXES, inputs: Sequence[Path] = ()
) -> dict[str, Path]:
    """Every file that will be written, by suffix, checked before any work; no input is written over."""
    if output.suffix.lower() in SUFFIXES:
        output = output.with_suffix("")
    given = {path.resolve() for path in inputs}
    found = {}
    for suffix in suffixes:
        path = output.with_name(output.name + suffix)
        if path.resolve() in given:
            raise InputError(f"{path}: this is one of the inputs; choose another name for the output")
        found[suffix] = check_output(path, overwrite, (suffix,))
    return found


def figures() -> Callable[..., Any]:
    """matplotlib's `Figure`, which draws to files without any display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("figures are drawn by matplotlib: pip install 'mast[bench]'") from error
    return Figure
