"""mast study: people rate the pictures of a benchmark, as in the paper's appendix. simulate stands in
study_simulate.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..files import check_output
from ..job import InputError
from .console import counting, loading, note, out, say, show, visible
from .options import OUTPUT, AsJson, Overwrite, Quiet, flag, group, option
from .study_simulate import numbers_in, put, simulate

if TYPE_CHECKING:
    from ..study.answers import AnswerStore
    from ..study.folder import Study
    from ..study.ratings import Ratings

CHOICE, PEOPLE, SERVER, RULE = "What is shown", "People", "Server", "Who counts"

study = group(
    "The paper's user study on your own runs: make it, let people rate, report; or simulate it first."
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder that mast study make wrote.")]
Target = Annotated[Path | None, option(OUTPUT, "FILE", "Write it here.", "print it", names=("-o", "--out"))]


@contextmanager
def _opened(folder: Path, create: bool = False) -> Iterator[tuple[Study, AnswerStore]]:
    from ..study.answers import open_answers
    from ..study.folder import read_study

    found = read_study(folder)
    store = open_answers(found, create)
    try:
        yield found, store
    finally:
        store.close()


# ------------------------------------------------------------------------------------------------ before


@study.command()
def make(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS...", help="Folders that mast bench run wrote.")],
    folder: Annotated[Path, option(OUTPUT, "STUDY", "The study's folder, a new one.", names=("-o", "--out"))],
    method: Annotated[
        list[str],
        option(
            CHOICE, "NAME", "VARIANT or LABEL=VARIANT; several times. All, if none.", names=("-m", "--method")
        ),
    ] = [],  # noqa: B006
    case: Annotated[
        list[str], option(CHOICE, "ID", "A sample of the benchmark by its id; several times.", "by the seed")
    ] = [],  # noqa: B006
    n: Annotated[
        str | None, option(CHOICE, "NUMBERS", "Numbers of regions, with commas.", "all", names=("-n",))
    ] = None,
    per_n: Annotated[int, option(CHOICE, "N", "Cases for every N, by the seed.", min=1)] = 1,
    seed: Annotated[int, option(CHOICE, "N", "Draws the cases, and names the pictures.")] = 0,
    report: Annotated[
        Path | None,
        option(
            CHOICE,
            "FILE",
            "The .json of mast bench report: each method with the compositor it chose for each N.",
        ),
    ] = None,
    manifest: Annotated[
        Path | None, option(CHOICE, "FILE", "The manifest, where it is not at its old place any more.")
    ] = None,
    title: Annotated[str, option(CHOICE, "TEXT", "What participants read on top.")] = "Repainted photos",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """A folder with everything people will see, under names that do not tell whose a picture is."""
    with loading("the runs", quiet):
        from ..study.make import check_target, choose
        from ..study.make import make as build

        numbers = numbers_in("-n", n) if n is not None else []
        if case and (n is not None or per_n != 1):
            raise InputError("cases are given by hand: leave -n and --per-n out")
        check_target(folder, overwrite)
        choice = choose(runs, method, case, numbers, per_n, seed, report, manifest)
    with counting(quiet) as on_count:
        made = build(choice, folder, title, overwrite, on_count)
    for text in choice.notes:
        note(text, "yellow")
    table = Table("case", "N", "sample", "methods", box=None)
    for one in made.cases:
        table.add_row(one.name, str(one.n), Text(visible(one.sample)), str(len(one.outputs)))
    out.print(table)
    out.print(Text(visible(str(folder))), soft_wrap=True)
    if not quiet:
        say(f"edit {folder}/texts/consent.md; then: mast study serve {folder}")


@study.command()
def invite(
    folder: Folder,
    address: Annotated[
        str, option(PEOPLE, "URL", "What the links begin with, as mast study serve prints it.")
    ],
    people: Annotated[int, option(PEOPLE, "N", "How many links.", min=1, max=10_000)] = 1,
    label: Annotated[
        list[str], option(PEOPLE, "TEXT", "Who a link is for, for your own list; several times.")
    ] = [],  # noqa: B006
    target: Target = None,
    overwrite: Overwrite = False,
) -> None:
    """Links for participants, as CSV: code, label, link. A link cannot be shown again, so keep them."""
    from ..study.serving import check_address
    from ..tables import comma_separated

    start = check_address(address)
    if target is not None:
        check_output(target, overwrite, (".csv",))
    with _opened(folder, create=True) as (_, store):
        labels = label or [""] * people
        made = store.invite(labels)
    rows = [
        {"code": code, "label": text, "link": f"{start}/?token={token}"}
        for (code, token), text in zip(made, labels, strict=True)
    ]
    put(comma_separated(("code", "label", "link"), rows), target)


@study.command()
def serve(
    folder: Folder,
    open_: Annotated[
        bool,
        flag(
            "--open", help="Anybody who finds the page may take part, not only who has a link.", panel=PEOPLE
        ),
    ] = False,
    most: Annotated[int, option(PEOPLE, "N", "With --open: so many people at most.", min=1)] = 500,
    host: Annotated[
        str, option(SERVER, "HOST", "Where to listen; 0.0.0.0 for other machines too.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, option(SERVER, "N", "The port.", "8431, or a free one", min=0, max=65535)
    ] = None,
    address: Annotated[
        str | None,
        option(SERVER, "URL", "How people reach it, e.g. https://study.example.org behind a proxy."),
    ] = None,
    name: Annotated[
        list[str], option(SERVER, "HOST", "Another name by which it may be asked for; several times.")
    ] = [],  # noqa: B006
) -> None:
    """The rating page, until Ctrl-C. An answer is on the disk before the page says that it is saved."""
    from ..studio.listening import address_of, free_socket
    from ..study.folder import TEXT_NAMES, check_pictures, read_text
    from ..study.server import Rules
    from ..study.serving import PORT, check_address
    from ..study.serving import serve as run

    rules = Rules(open_, most, None if address is None else check_address(address))
    with _opened(folder, create=True) as (found, store):
        check_pictures(found)
        for text in TEXT_NAMES:
            read_text(found, text)
        bound = free_socket(host, port, PORT)
        start = rules.address or address_of(bound)
        if open_:
            say("open to everybody at ", (start, "bold"))
        else:
            say(f"by invitation: mast study invite {folder} --address {start}")
        said = lambda url: say("the researcher's page: ", (url, "bold"))
        try:
            run(found, store, bound, rules, [one.lower() for one in name], said)
        except KeyboardInterrupt:
            pass
    say("stopped; every answer that was confirmed is kept")


# ------------------------------------------------------------------------------------------------ answers


@study.command()
def people(folder: Folder, as_json: AsJson = False) -> None:
    """Who was invited, and how far they are."""
    with _opened(folder) as (found, store):
        standings = store.standings()
        questions = sum(1 for _ in found.outputs()) * len(found.criteria)
    if as_json:
        print(json.dumps([{**vars(one.participant), "answers": one.answers} for one in standings]))
        return
    table = Table("code", "label", "answers", "state", box=None)
    for one in standings:
        who = one.participant
        state = "finished" if who.finished else "begun" if who.consented else "not begun"
        table.add_row(who.code, Text(visible(who.label)), f"{one.answers} of {questions}", state)
    out.print(table)


@study.command()
def export(folder: Folder, target: Target = None, overwrite: Overwrite = False) -> None:
    """Every answer as CSV, a row each."""
    from ..study.ratings import COLUMNS
    from ..tables import comma_separated

    if target is not None:
        check_output(target, overwrite, (".csv",))
    with _opened(folder) as (_, store):
        put(comma_separated(COLUMNS, store.rows()), target)


@study.command()
def withdraw(
    folder: Folder, code: Annotated[str, typer.Argument(metavar="CODE", help="The participant's code.")]
) -> None:
    """Deletes a participant with all their answers, for good."""
    with _opened(folder) as (_, store):
        say(f"{code}: deleted, with {store.withdraw(code)} answers")


@study.command()
def report(
    folder: Folder,
    answers: Annotated[
        Path | None,
        option(OUTPUT, "CSV", "Answers from a file, as export or simulate wrote it.", "the study's own"),
    ] = None,
    drop: Annotated[
        str, option(RULE, "FLAGS", "Who is left out: of incomplete, straight and fast, with commas; or none.")
    ] = "incomplete,straight,fast",
    straight: Annotated[
        float, option(RULE, "SHARE", "Of pictures with one answer to every question: a straight-liner.")
    ] = 0.9,
    too_fast: Annotated[float, option(RULE, "SECONDS", "Less on half of the pictures is too fast.")] = 6.0,
    seed: Annotated[int, option(RULE, "N", "Of the draws behind the intervals.", min=0)] = 0,
    stem: Annotated[
        Path | None,
        option(
            OUTPUT,
            "STEM",
            "Write STEM.md, .tex, .csv, .json and charts.",
            "STUDY/report",
            names=("-o", "--out"),
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Means with intervals, ranks, agreement, tests and radar charts."""
    with loading("the answers", quiet):
        from ..study.folder import read_study
        from ..study.quality import QualityRule, parse_drop
        from ..study.ratings import read_csv
        from ..study.report import build, check_target, save

        rule = QualityRule(parse_drop(drop), straight, too_fast)
        target = check_target(stem or folder / "report", overwrite or stem is None)
        ratings = _own(folder) if answers is None else read_csv(read_study(folder), answers)
    found = build(ratings, rule, seed)
    written = save(found, target)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    show(found.tables, found.notes)
    if not quiet:
        say(f"written: {', '.join(str(path) for path in written)}")


def _own(folder: Path) -> Ratings:
    from ..study.ratings import from_rows

    with _opened(folder) as (found, store):
        return from_rows(found, store.rows())


study.command()(simulate)
