"""A report in files: STEM.md, STEM.tex, STEM.csv, STEM.json, and STEM.png where matplotlib is installed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...files import atomic, check_output
from ...job import InputError
from ...tables import latex, markdown
from .report import BenchReport, family
from .scores import MethodScores

SUFFIXES = (".png", ".md", ".tex", ".csv", ".json")
LISTED = 20  # failures the Markdown names one by one
NO_PLOT = "no plot: it is drawn by matplotlib (pip install 'mast[bench]')"
COLUMNS = (
    "variant",
    "n",
    "samples",
    "of",
    "artfid",
    "fid",
    "lpips",
    "rfid",
    "rfid_std",
    "mfid",
    "ssim",
    "regions",
    "skipped_regions",
)


def check_stem(stem: Path, overwrite: bool) -> Path:
    """Refuses a place where the report could not be written, before anything is measured."""
    if not stem.name or stem.name in (".", ".."):
        raise InputError(f"{stem}: give a name for the report, as in --out tables/june")
    for suffix in SUFFIXES:
        check_output(_path(stem, suffix), overwrite, (suffix,))
    return stem


def save(report: BenchReport, stem: Path) -> list[Path]:
    """Writes every form of the report and returns their paths; the JSON comes last: where it is, all is."""
    written = []
    figure = trade_off(report.rows)
    if figure is None:
        if NO_PLOT not in report.notes:
            report.notes.append(NO_PLOT)
    else:
        with atomic(_path(stem, ".png")) as part:
            figure.savefig(part, format="png", dpi=150)
        written.append(_path(stem, ".png"))
    tex = "% needs: \\usepackage{booktabs,amssymb,graphicx}\n\n" + "\n".join(
        latex(table) for table in report.tables
    )
    data = json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n"
    texts = ((".md", to_markdown(report)), (".tex", tex), (".csv", to_csv(report)), (".json", data))
    for suffix, text in texts:
        with atomic(_path(stem, suffix)) as part:
            part.write_bytes(text.encode("utf-8", "surrogateescape"))
        written.append(_path(stem, suffix))
    return written


def _path(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)  # not with_suffix: a stem may have a dot in it


def to_markdown(report: BenchReport) -> str:
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


def to_csv(report: BenchReport) -> str:
    """A row for each variant and N, and whether it is the one the comparison shows."""
    shown = {(score.variant, n) for entry in report.rows for n, score in entry.scores.items()}
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*COLUMNS, "shown", "inception", "lpips_net"])
    for score in report.scores:
        values = score.to_dict()
        nets = [score.networks.get(name, "") for name in ("inception", "lpips")]
        is_shown = int((score.variant, score.n) in shown)
        writer.writerow(["" if values[c] is None else values[c] for c in COLUMNS] + [is_shown, *nets])
    return buffer.getvalue()


def trade_off(rows: Sequence[MethodScores]) -> Any | None:
    """FID against LPIPS, a line for each method through its N; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    shapes = {"G-S": "o", "R-S": "s", "R-M": "^"}
    for i, entry in enumerate(rows):
        points = [(n, score.fid, score.lpips) for n, score in entry.scores.items()]
        known = [(n, fid, lpips) for n, fid, lpips in points if fid is not None and lpips is not None]
        if not known:
            continue
        kind = family(entry.run)
        xs, ys = [lpips for _, _, lpips in known], [fid for _, fid, _ in known]
        colour = f"C{i % 10}"
        axes.plot(
            xs, ys, marker=shapes.get(kind, "x"), color=colour, label=f"{entry.label} ({kind})", alpha=0.85
        )
        for n, fid, lpips in known:
            axes.annotate(f"{n}", (lpips, fid), textcoords="offset points", xytext=(5, 4), fontsize=8)
    axes.set_xlabel("LPIPS to the photo (lower keeps more content)")
    axes.set_ylabel("FID to the styles (lower is more faithful)")
    axes.set_title("Numbers at the points: N")
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure
