"""One table, written for the terminal, in Markdown, in LaTeX (booktabs) and as CSV; best numbers marked."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.markup import escape
from rich.table import Table as RichTable

WIDEST = 12  # columns of numbers that can be read side by side
TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "✓": r"\checkmark",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "±": r"$\pm$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "π": r"$\pi$",
    "Δ": r"$\Delta$",
}
TERMINAL = {"best": "[bold]{}[/]", "second": "[underline]{}[/]"}
MARKDOWN = {"best": "**{}**", "second": "<u>{}</u>"}
LATEX = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}


@dataclass(frozen=True)
class Cell:
    """What stands in a place of the table; mark is 'best', 'second' or ''."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Group:
    """Columns under one heading, which may be empty; numbers stand at the right, words at the left."""

    title: str
    columns: tuple[str, ...]
    words: bool = False


@dataclass(frozen=True)
class Row:
    """labels: as many as the table's; cells: as many as all groups have columns."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """name: for \\label; caption: what is measured, on how much, by what."""

    name: str
    title: str
    caption: str
    labels: tuple[str, ...]
    groups: tuple[Group, ...]
    rows: tuple[Row, ...] = field(default=())

    def __post_init__(self) -> None:
        width = sum(len(group.columns) for group in self.groups)
        for row in self.rows:
            if len(row.labels) != len(self.labels) or len(row.cells) != width:
                raise ValueError(f"{self.name}: a row of {len(row.labels)} + {len(row.cells)} places")

    @property
    def wide(self) -> bool:
        return sum(len(group.columns) for group in self.groups) > WIDEST

    def split(self) -> list[Table]:
        """A table for each group of columns; one whose groups have no headings stays whole."""
        if not all(group.title for group in self.groups):
            return [self]
        parts, start = [], 0
        for group in self.groups:
            end = start + len(group.columns)
            rows = tuple(Row(row.labels, row.cells[start:end]) for row in self.rows)
            parts.append(replace(self, title=f"{self.title}: {group.title}", groups=(group,), rows=rows))
            start = end
        return parts


def text_table(
    name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = ""
) -> Table:
    """A table of ready texts. Columns that hold nothing but numbers (and dashes) go to the right."""
    words = [not all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    groups = tuple(Group("", (head,), text) for head, text in zip(header, words, strict=True))
    return Table(name, title, caption, (), groups, tuple(Row((), tuple(map(Cell, row))) for row in rows))


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%").strip())
    except ValueError:
        return text in ("", "-")
    return True


def number(value: float | None, digits: int = 3) -> str:
    """So many decimals; powers of ten for what would round to nothing; a dash for nothing at all."""
    if value is None:
        return "-"
    return f"{value:.1e}" if value and abs(value) < 0.5 * 10**-digits else f"{value:.{digits}f}"


def terminal(table: Table, width: int = 80) -> list[RichTable]:
    """The table for rich, in one piece where that fits into so many letters, else a piece for each group."""
    pieces = []
    for part in [table] if _width(table) <= width else table.split():
        rich = RichTable(title=escape(part.title), box=None, title_justify="left", title_style="bold")
        for label in part.labels:
            rich.add_column(escape(label), no_wrap=True)
        for head, words in zip(_heads(part), _words(part), strict=True):
            rich.add_column(escape(head), justify="left" if words else "right", no_wrap=not words)
        for row in part.rows:
            cells = [TERMINAL.get(cell.mark, "{}").format(escape(cell.text)) for cell in row.cells]
            rich.add_row(*(escape(label) for label in row.labels), *cells)
        pieces.append(rich)
    return pieces


def _heads(table: Table) -> list[str]:
    single = len(table.groups) == 1  # then the title has it, or the caption
    return [
        column if not group.title or (single and group.title in table.title) else f"{group.title}\n{column}"
        for group in table.groups
        for column in group.columns
    ]


def _words(table: Table) -> list[bool]:
    return [group.words for group in table.groups for _ in group.columns]


def _width(table: Table) -> int:
    """Letters a table takes on the terminal, a blank on both sides of each column."""
    rows = [[*row.labels, *(cell.text for cell in row.cells)] for row in table.rows]
    heads = [*table.labels, *_heads(table)]
    columns = zip(
        *[[max(map(len, head.split("\n"))) for head in heads], *[map(len, r) for r in rows]], strict=True
    )
    return sum(max(column) + 2 for column in columns)


def markdown(table: Table) -> str:
    """The table under its title, its caption below; in pieces where it is too wide to read."""
    pieces = table.split() if table.wide else [table]
    parts = [f"## {table.title}\n"]
    for piece in pieces:
        parts += [*([f"### {piece.title}\n"] if len(pieces) > 1 else []), piped(piece)]
    return "\n".join([*parts, f"{table.caption}\n"] if table.caption else parts)


def piped(table: Table) -> str:
    """The Markdown table alone, whatever its width."""
    heads = [f"{group.title} {column}".strip() for group in table.groups for column in group.columns]
    lines = [
        [*table.labels, *heads],
        [*["---"] * len(table.labels), *("---" if words else "---:" for words in _words(table))],
        *(
            [*row.labels, *(MARKDOWN.get(cell.mark, "{}").format(cell.text) for cell in row.cells)]
            for row in table.rows
        ),
    ]
    return "".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines)


def latex(table: Table) -> str:
    """A table environment; it needs booktabs, amssymb for check marks, and graphicx where it is wide: then it
    goes over both columns and shrinks to the page.
    """
    places = "l" * len(table.labels) + "".join("l" if words else "r" for words in _words(table))
    kind = "table*" if table.wide else "table"
    lines = [rf"\begin{{tabular}}{{{places}}}", r"\toprule"]
    if any(group.title for group in table.groups):
        lines += _headings(table)
    columns = [*table.labels, *(column for group in table.groups for column in group.columns)]
    lines += [_line([tex(column) for column in columns]), r"\midrule"]
    for row in table.rows:
        cells = [LATEX.get(cell.mark, "{}").format(tex(cell.text)) for cell in row.cells]
        lines.append(_line([*(tex(label) for label in row.labels), *cells]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.wide:
        lines = [r"\resizebox{\textwidth}{!}{%", *lines[:-1], lines[-1] + "}"]
    lines += [rf"\caption{{{tex(table.title)}. {tex(table.caption)}}}", rf"\label{{tab:{table.name}}}"]
    return "\n".join([rf"\begin{{{kind}}}", r"\centering", r"\small", *lines, rf"\end{{{kind}}}"]) + "\n"


def _headings(table: Table) -> list[str]:
    """The groups' titles over their columns, with a rule under each."""
    titles, rules, at = [""] * len(table.labels), [], len(table.labels) + 1
    for group in table.groups:
        width = len(group.columns)
        titles.append(rf"\multicolumn{{{width}}}{{c}}{{{tex(group.title)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [_line(titles), "".join(rules)]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def tex(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(TEX.get(letter, letter) for letter in text)


def comma_separated(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a header line; None is an empty place, and what has no column is left out."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
