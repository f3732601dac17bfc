"""Reports and sweeps in files: Markdown, LaTeX, CSV and JSON, and plots where matplotlib is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import atomic, check_output
from ...job import InputError
from ...tables import Table, comma_separated, latex, markdown
from .plots import comparison_figure
from .report import BenchReport

SUFFIXES = (".png", ".md", ".tex", ".csv", ".json")
LISTED = 20  # failures the Markdown names one by one
NO_PLOT = "no plot: it is drawn by matplotlib (pip install 'mast[bench]')"


def check_stem(stem: Path, overwrite: bool) -> Path:
    """Refuses a place where the report could not be written, before anything is measured."""
    if not stem.name or stem.name in (".", ".."):
        raise InputError(f"{stem}: give a name for the report, as in --out tables/june")
    for suffix in SUFFIXES:
        check_output(_path(stem, suffix), overwrite, (suffix,))
    return stem


def save(report: BenchReport, stem: Path) -> list[Path]:
    """STEM.png, .md, .tex, .csv (a row for each variant and N) and .json, as far as they can be made."""
    figure = comparison_figure(report.rows)
    if figure is None and NO_PLOT not in report.notes:
        report.notes.append(NO_PLOT)
    shown = {(score.variant, n) for entry in report.rows for n, score in entry.scores.items()}
    rows = [{**score.to_row(), "shown": int((score.variant, score.n) in shown)} for score in report.scores]
    plots = {"": figure} if figure is not None else {}
    return write_forms(stem, to_markdown(report), report.tables, rows, report.to_dict(), plots)


def write_forms(
    stem: Path,
    text: str,
    tables: Sequence[Table],
    rows: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    plots: Mapping[str, Any],
) -> list[Path]:
    """Writes one thing in every form and returns the paths; the JSON comes last: where it is, all is.

    text: the Markdown; tables: for LaTeX; rows: for CSV; plots: matplotlib figures by what is added to STEM.
    """
    written = []
    for more, figure in plots.items():
        written.append(_path(stem, f"{more}.png"))
        with atomic(written[-1]) as part:
            figure.savefig(part, format="png", dpi=150)
    needs = "% needs: \\usepackage{booktabs,amssymb,graphicx}\n\n"
    texts = {
        ".md": text,
        ".tex": needs + "\n".join(latex(table) for table in tables),
        ".csv": comma_separated(list(rows[0]) if rows else [], rows),
        ".json": json.dumps(data, indent=1, ensure_ascii=False) + "\n",
    }
    for suffix, form in texts.items():
        written.append(_path(stem, suffix))
        with atomic(written[-1]) as part:
            part.write_bytes(form.encode("utf-8", "surrogateescape"))
    return written


def _path(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)  # not with_suffix: a stem may have a dot in it


def to_markdown(report: BenchReport) -> str:
    """All tables, the notes, and the first failures."""
    parts = ["# Benchmark report\n", *(markdown(table) for table in report.tables)]
    if report.notes:
        parts.append("## Notes\n\n" + "".join(f"- {note}\n" for note in report.notes))
    if report.failures:
        lines = [
            f"- {variant}, {sample}: {reason}"
            for variant, failed in report.failures.items()
            for sample, reason in failed.items()
        ]
        more = [f"- and {len(lines) - LISTED} more: see failed.jsonl"] if len(lines) > LISTED else []
        parts.append(f"## Failures ({len(lines)})\n\n" + "\n".join([*lines[:LISTED], *more]) + "\n")
    return "\n".join(parts)
