"""Answers as an array, from the answers of people or a CSV of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..files import open_regular, shown
from ..job import InputError
from .folder import Study

COLUMNS = (
    "participant",
    "case",
    "n",
    "sample",
    "method",
    "picture",
    "place",
    "criterion",
    "value",
    "seconds",
    "changes",
    "given",
    "source",
)
NEEDED = ("participant", "case", "method", "criterion", "value")
SIMULATED = "simulated"
LARGEST_CSV = 256 << 20  # bytes


@dataclass(frozen=True)
class Ratings:
    """values: (people, cases, methods, criteria), NaN where an answer is missing; seconds: (people, cases,
    methods) that a picture was on the screen, NaN where unknown. simulated: no person gave them.
    """

    study: Study
    people: tuple[str, ...]
    values: np.ndarray
    seconds: np.ndarray
    simulated: bool = False

    def of(self, keep: Sequence[bool]) -> Ratings:
        """Some of the people."""
        chosen = np.asarray(keep, bool)
        people = tuple(name for name, kept in zip(self.people, chosen, strict=True) if kept)
        return Ratings(self.study, people, self.values[chosen], self.seconds[chosen], self.simulated)

    def cases_of(self, n: int | None) -> list[int]:
        """Places of the cases of one N, or of all."""
        return [i for i, case in enumerate(self.study.cases) if n is None or case.n == n]


def from_rows(study: Study, rows: Iterable[Mapping[str, Any]], name: str = "the answers") -> Ratings:
    """Rows as `AnswerStore.rows` or a CSV has them; what does not belong to the study is refused by its
    line."""
    cases = {case.name: i for i, case in enumerate(study.cases)}
    methods = {method: i for i, method in enumerate(study.methods)}
    criteria = {one.name: i for i, one in enumerate(study.criteria)}
    people: dict[str, int] = {}
    cells: dict[tuple[int, int, int, int], int] = {}
    spent: dict[tuple[int, int, int], float] = {}
    sources: set[str] = set()
    for line, row in enumerate(rows, 2):
        try:
            who = people.setdefault(str(row["participant"]), len(people))
            case, method, criterion = cases[row["case"]], methods[row["method"]], criteria[row["criterion"]]
            value = int(row["value"])
            if not 1 <= value <= study.points:
                raise ValueError(f"the value {value} is not from 1 to {study.points}")
            seconds = float(row.get("seconds") or "nan")
        except KeyError as error:
            raise InputError(
                f"{name}: line {line}: the study has no {error.args[0]!r}; is it of another study?"
            ) from error
        except (ValueError, TypeError) as error:
            raise InputError(f"{name}: line {line}: damaged ({error}); export the answers again") from error
        if (who, case, method, criterion) in cells:
            raise InputError(
                f"{name}: line {line}: answers a question a second time; export the answers again"
            )
        cells[who, case, method, criterion] = value
        spent[who, case, method] = (
            max(spent.get((who, case, method), 0.0), seconds) if seconds == seconds else seconds
        )
        sources.add(str(row.get("source", "")))
    shape = (len(people), len(cases), len(methods), len(criteria))
    values, times = np.full(shape, np.nan), np.full(shape[:3], np.nan)
    for place, value in cells.items():
        values[place] = value
    for spot, seconds in spent.items():
        times[spot] = seconds
    return Ratings(study, tuple(people), values, times, SIMULATED in sources)


def read_csv(study: Study, path: Path) -> Ratings:
    """The answers of a CSV that `mast study export` or `simulate` wrote."""
    with open_regular(path, "answers") as file:
        data = file.read(LARGEST_CSV + 1)
    if len(data) > LARGEST_CSV:
        raise InputError(f"{shown(path)}: larger than {LARGEST_CSV >> 20} MB; this is no export of a study")
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        missing = [column for column in NEEDED if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(
                f"{shown(path)}: has no column {', '.join(missing)}; give a file that mast study export wrote"
            )
        return from_rows(study, reader, shown(path))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{shown(path)}: no CSV ({error}); give a file that mast study export wrote"
        ) from error
