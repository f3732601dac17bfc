"""One table in every form: for the terminal, Markdown, LaTeX and CSV; numbers and words in their places."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mast.tables import (
    Cell,
    Group,
    Row,
    Table,
    comma_separated,
    latex,
    markdown,
    number,
    piped,
    terminal,
    text_table,
)


@pytest.fixture
def table() -> Table:
    rows = (
        Row(("a_b", "50% & more"), (Cell("1.0", "best"), Cell("2.0"), Cell("-"))),
        Row(("✓", ""), (Cell("1.5", "second"), Cell("1.0", "best"), Cell("3"))),
    )
    groups = (Group("FID ↓", ("N=2", "N=3")), Group("n", ("N=2",)))
    return Table("t", "A table", "Caption_1.", ("one", "two"), groups, rows)


def test_markdown(table: Table) -> None:
    lines = markdown(table).splitlines()
    assert lines[2] == "| one | two | FID ↓ N=2 | FID ↓ N=3 | n N=2 |"
    assert lines[3] == "| --- | --- | ---: | ---: | ---: |"
    assert lines[4] == "| a_b | 50% & more | **1.0** | 2.0 | - |"
    assert lines[5] == "| ✓ |  | <u>1.5</u> | **1.0** | 3 |"
    assert lines[-1] == "Caption_1."


def test_latex(table: Table) -> None:
    text = latex(table)
    assert r"\begin{tabular}{llrrr}" in text
    assert r" &  & \multicolumn{2}{c}{FID $\downarrow$} & \multicolumn{1}{c}{n} \\" in text
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-5}" in text
    assert r"a\_b & 50\% \& more & \textbf{1.0} & 2.0 & - \\" in text
    assert r"\checkmark &  & \underline{1.5}" in text
    assert r"\caption{A table. Caption\_1.}" in text
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 1


def test_a_wide_table_is_shown_in_pieces(table: Table) -> None:
    assert len(terminal(table)) == 1 and len(terminal(table, 30)) == 2
    groups = tuple(Group(name, tuple("abcd")) for name in ("w", "x", "y", "z"))
    wide = Table("t", "T", "", ("m",), groups, (Row(("r",), tuple(Cell(str(i)) for i in range(16))),))
    parts = wide.split()
    assert [part.title for part in parts] == ["T: w", "T: x", "T: y", "T: z"]
    assert [cell.text for cell in parts[1].rows[0].cells] == ["4", "5", "6", "7"]
    values = [[1000.0 + i] * 16 for i in range(3)]
    rows = tuple(Row((f"row {v[0]}",), tuple(Cell(f"{x:.3f}", "best") for x in v)) for v in values)
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    for piece in terminal(Table("t", "T", "", ("m",), groups, rows), console.width):
        console.print(piece)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("1002.000") == 16 and "…" not in shown  # never a number cut short
    assert markdown(wide).count("| m |") == 4 and "### T: x" in markdown(wide)
    assert r"\begin{table*}" in latex(wide) and latex(wide).count(r"\begin{tabular}") == 1
    with pytest.raises(ValueError):
        Table("t", "T", "", ("m",), groups, (Row(("r",), (Cell("1"),)),))


# ------------------------------------------------------------------------------------------------ ready texts


@pytest.fixture
def texts() -> Table:
    rows = [("MAST", "0.500", "0.479 to 0.503"), ("a|b", "-", "too few"), ("StyleID", "1.0e-05", "")]
    return text_table("t", "Figures", ("method", "LPIPS", "interval"), rows)


def test_numbers_go_right_and_words_left(texts: Table) -> None:
    assert [group.words for group in texts.groups] == [True, False, True]
    lines = piped(texts).splitlines()
    assert lines[:3] == [
        "| method | LPIPS | interval |",
        "| --- | ---: | --- |",
        "| MAST | 0.500 | 0.479 to 0.503 |",
    ]
    assert lines[3].startswith("| a\\|b |")
    assert r"\begin{tabular}{lrl}" in latex(texts) and "multicolumn" not in latex(texts)
    assert markdown(texts).startswith("## Figures") and not markdown(texts).endswith("\n\n")


def test_a_table_without_headings_is_never_split_but_wraps(texts: Table) -> None:
    assert texts.split() == [texts]
    (whole,) = terminal(texts, 20)
    console = Console(width=30, file=io.StringIO(), force_terminal=False)
    console.print(whole)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0.500" in shown and "1.0e-05" in shown and "…" not in shown


def test_numbers() -> None:
    assert [number(value) for value in (None, 0.0, 1.23456, -0.0004, 2e-7)] == [
        *("-", "0.000", "1.235"),
        *("-4.0e-04", "2.0e-07"),
    ]
    assert number(0.00004, 4) == "4.0e-05" and number(0.1031, 4) == "0.1031"


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(0, 6))
def test_a_number_is_never_shown_as_nothing(value: float, digits: int) -> None:
    shown = float(number(value, digits))
    assert (shown == 0) == (value == 0)
    assert shown == pytest.approx(value, rel=0.06, abs=0.51 * 10**-digits)


def test_comma_separated() -> None:
    rows = [{"a": 1, "b": None, "more": 3}, {"a": "x,y", "b": 0.5}]
    text = comma_separated(["a", "b"], rows)
    assert text.splitlines()[0] == "a,b"
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1", "b": ""}, {"a": "x,y", "b": "0.5"}]
