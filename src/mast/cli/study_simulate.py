"""mast study simulate: how many people a study needs, by synthetic raters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..files import atomic, check_output
from ..job import InputError
from .console import counting, loading, out, show, visible
from .options import OUTPUT, AsJson, Overwrite, Quiet, option

RATERS = "Synthetic raters"


def simulate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="A study, for its cases, methods and criteria.")
    ] = None,
    people: Annotated[str, option(RATERS, "NUMBERS", "How many people, with commas.")] = "10,20,30",
    effect: Annotated[
        float, option(RATERS, "X", "Points that the first method is ahead (the paper: 0.34 to the next).")
    ] = 0.34,
    mean: Annotated[
        list[str],
        option(RATERS, "METHOD=X", "What a method is worth instead, in points; several times, with a STUDY."),
    ] = [],  # noqa: B006
    noise: Annotated[float, option(RATERS, "SD", "Chance in a single answer, in points.")] = 1.0,
    leniency: Annotated[float, option(RATERS, "SD", "How much people differ in their level.")] = 0.7,
    taste: Annotated[float, option(RATERS, "SD", "How much people differ in their view of a method.")] = 0.4,
    methods: Annotated[int, option(RATERS, "N", "Without a STUDY: how many methods.", min=2, max=40)] = 8,
    cases: Annotated[int, option(RATERS, "N", "Without a STUDY: how many cases.", min=1, max=100)] = 4,
    repeats: Annotated[int, option(RATERS, "N", "Studies simulated for each number of people.", min=1)] = 200,
    seed: Annotated[int, option(RATERS, "N", "Of all that is drawn.", min=0)] = 0,
    target: Annotated[
        Path | None,
        option(
            OUTPUT,
            "CSV",
            "With a STUDY: write the answers of one simulated study, to rehearse the report; no power then.",
            names=("-o", "--out"),
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Synthetic raters: how likely so many people show an effect; or answers to rehearse the report with."""
    with loading("the simulation", quiet):
        from ..study.folder import CRITERIA, SCALE, read_study
        from ..study.ratings import COLUMNS
        from ..study.simulate import RaterModel, ahead, power, to_rows
        from ..study.simulate import simulate as draw
        from ..tables import comma_separated, number, text_table

        found = None if folder is None else read_study(folder)
        counts = numbers_in("--people", people)
        if found is None and (mean or target is not None):
            raise InputError("--mean and --out need a STUDY, whose methods they are of")
        names = found.methods if found is not None else tuple(f"method {i + 1}" for i in range(methods))
        worth = dict(zip(names, ahead(len(names), effect), strict=True)) | _worth(mean, names)
        points = found.points if found is not None else int(SCALE["points"])  # type: ignore[call-overload]
        model = RaterModel(tuple(worth.values()), noise, leniency, taste, points=points)
        shape = (len(found.cases), len(found.criteria)) if found is not None else (cases, len(CRITERIA))
        if target is not None:
            check_output(target, overwrite, (".csv",))
    if found is not None and target is not None:
        put(comma_separated(COLUMNS, to_rows(draw(found, model, counts[-1], seed))), target)
        return
    with counting(quiet) as on_count:
        results = power(model, counts, *shape, repeats, seed, on_count)
    if as_json:
        print(json.dumps([vars(one) for one in results]))
        return
    rows = [
        [str(one.people), *(number(value, 2) for value in (one.differ, one.above_one, one.above_all))]
        for one in results
    ]
    table = text_table(
        "power",
        f"Power at the 5 % level: {len(names)} methods, {shape[0]} cases",
        ("People", "they differ", "best above one", "best above all"),
        rows,
        f"Share of {repeats} simulated studies: Friedman's test; the best method above a given other, and "
        "above every other, by Wilcoxon's test with Holm's correction. "
        f"Noise {noise:g}, leniency {leniency:g}, taste "
        f"{taste:g} points.",
    )
    show([table], [])


def numbers_in(name: str, text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
        if min(found) < 1 or max(found) > 100_000:
            raise ValueError
        return found
    except ValueError as error:
        raise InputError(f"{name} {text}: write whole numbers with commas, as in {name} 2,3") from error


def _worth(given: list[str], names: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if name not in names:
            raise InputError(f"--mean {text}: no method is called {name!r}; there are {', '.join(names)}")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise InputError(f"--mean {text}: write METHOD=POINTS, as in mast=5.1") from error
    return found


def put(text: str, target: Path | None) -> None:
    """On stdout, or whole into a file."""
    if target is None:
        print(text, end="")
        return
    with atomic(target) as part:
        part.write_text(text, encoding="utf-8")
    out.print(Text(visible(str(target))), soft_wrap=True)
