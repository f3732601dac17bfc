"""What people answered, in one SQLite file: written and synced to disk before anybody is told that it is
saved."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..files import shown
from ..job import InputError
from .folder import Study
from .order import shown_order

PRACTICE = "practice"  # the picture under which practice answers are kept; no export has them
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # none that looks like another, nor makes a number of a code
LONGEST_LABEL = 80
WAIT = 20.0  # seconds for another process to finish its write
TABLES = """
CREATE TABLE IF NOT EXISTS study (fingerprint TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS participants (
    code TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, label TEXT NOT NULL, number INTEGER UNIQUE,
    created REAL NOT NULL, consented REAL, finished REAL
);
CREATE TABLE IF NOT EXISTS answers (
    participant TEXT NOT NULL REFERENCES participants(code) ON DELETE CASCADE,
    picture TEXT NOT NULL, criterion TEXT NOT NULL, value INTEGER NOT NULL,
    seconds REAL NOT NULL, given REAL NOT NULL, changes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (participant, picture, criterion)
);
"""


@dataclass(frozen=True)
class Participant:
    """number: the row of the order of pictures, given when somebody agrees to take part; times are
    seconds."""

    code: str
    label: str
    number: int | None
    created: float
    consented: float | None
    finished: float | None


@dataclass(frozen=True)
class Standing:
    """A participant and how many answers there are of them, practice left out."""

    participant: Participant
    answers: int


class AnswerStore:
    """The answers of one study. Any number of threads and processes may use it at once."""

    def __init__(self, study: Study) -> None:
        self.study, self.path = study, study.answers_path
        self._lock, self._reading = threading.Lock(), threading.Lock()
        try:
            self._database = self._connect()
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")  # a commit is on the disk, not only on its way
            self._database.execute("PRAGMA foreign_keys=ON")
            self._database.executescript(TABLES)
            self._reader = self._connect()  # so that nobody who reads waits for the disk
            self._agree()
        except sqlite3.Error as error:
            raise InputError(
                f"{shown(self.path)}: cannot be used as a file of answers ({error}); make sure that the "
                f"folder "
                "can be written, or put the file back from a copy"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=WAIT, isolation_level=None, check_same_thread=False)

    def close(self) -> None:
        self._reader.close()
        self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; when the block is left, the disk has it."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading:
            return self._reader.execute(query, values).fetchall()

    def _agree(self) -> None:
        """Answers belong to the very pictures, criteria and scale that people saw."""
        facts = [
            sorted(output.id for _, output in self.study.outputs()),
            [one.name for one in self.study.criteria],
            self.study.points,
        ]
        mine = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        with self._writing() as database:
            known = database.execute("SELECT fingerprint FROM study").fetchone()
            if known is None:
                database.execute("INSERT INTO study VALUES (?)", (mine,))
            elif known[0] != mine:
                raise InputError(
                    f"{shown(self.path)}: these answers were given to other pictures, criteria or points "
                    f"than "
                    "study.json names now; put the old study.json back, or move the answers away"
                )

    # -------------------------------------------------------------------------------------------- people

    def invite(self, labels: Sequence[str]) -> list[tuple[str, str]]:
        """A (code, token) for each; the token is the key to the session, and kept as a hash only."""
        for label in labels:
            if len(label) > LONGEST_LABEL:
                raise InputError(
                    f"the label {label[:20]!r}... is longer than {LONGEST_LABEL} letters; shorten it"
                )
        made = []
        with self._writing() as database:
            taken = {code for (code,) in database.execute("SELECT code FROM participants")}
            for label in labels:
                code = next(c for c in iter(_code, None) if c not in taken)
                taken.add(code)
                token = secrets.token_urlsafe(18)
                database.execute(
                    "INSERT INTO participants (code, token, label, created) VALUES (?, ?, ?, ?)",
                    (code, hashed(token), label, time.time()),
                )
                made.append((code, token))
        return made

    def participant(self, token: str) -> Participant | None:
        """Whose token this is."""
        found = self._read(f"SELECT {_FIELDS} FROM participants WHERE token = ?", (hashed(token),))
        return Participant(*found[0]) if found else None

    def count(self) -> int:
        return int(self._read("SELECT COUNT(*) FROM participants")[0][0])

    def consent(self, code: str) -> None:
        """Notes the consent and, the first time, gives the participant the next order of pictures."""
        with self._writing() as database:
            database.execute(
                "UPDATE participants SET consented = ?, "
                "number = (SELECT COALESCE(MAX(number), -1) + 1 FROM participants) "
                "WHERE code = ? AND number IS NULL",
                (time.time(), code),
            )

    def finish(self, code: str) -> None:
        with self._writing() as database:
            database.execute(
                "UPDATE participants SET finished = ? WHERE code = ? AND finished IS NULL",
                (time.time(), code),
            )

    def withdraw(self, code: str) -> int:
        """Deletes somebody and all their answers; returns how many those were."""
        with self._writing() as database:
            removed = database.execute("DELETE FROM answers WHERE participant = ?", (code,)).rowcount
            known = database.execute("DELETE FROM participants WHERE code = ?", (code,)).rowcount
        if not known:
            raise InputError(f"{code}: no participant has this code; mast study people lists them")
        with self._lock:  # nothing of it stays in the log either
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.execute("VACUUM")
        return removed

    def standings(self) -> list[Standing]:
        """Everybody, in the order of invitation."""
        fields = ", ".join(f"p.{name}" for name in _FIELDS.split(", "))
        found = self._read(
            f"SELECT {fields}, COUNT(a.value) FROM participants p LEFT JOIN answers a "
            "ON a.participant = p.code AND a.picture != ? GROUP BY p.code ORDER BY p.created, p.rowid",
            (PRACTICE,),
        )
        return [Standing(Participant(*row[:-1]), row[-1]) for row in found]

    # -------------------------------------------------------------------------------------------- answers

    def save(self, code: str, picture: str, criterion: str, value: int, seconds: float) -> None:
        """Keeps an answer, in place of an older one to the same question. On return it is on the disk."""
        with self._writing() as database:
            database.execute(
                "INSERT INTO answers (participant, picture, criterion, value, seconds, given) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (participant, picture, criterion) DO UPDATE SET "
                "value = excluded.value, seconds = MAX(seconds, excluded.seconds), given = excluded.given, "
                "changes = changes + 1",
                (code, picture, criterion, value, seconds, time.time()),
            )

    def answers(self, code: str) -> dict[str, dict[str, int]]:
        """Somebody's answers: by picture (practice too), then by criterion."""
        found: dict[str, dict[str, int]] = {}
        for picture, criterion, value in self._read(
            "SELECT picture, criterion, value FROM answers WHERE participant = ?", (code,)
        ):
            found.setdefault(picture, {})[criterion] = value
        return found

    def seconds(self, code: str) -> dict[str, float]:
        """How long each picture was on somebody's screen so far."""
        return dict(
            self._read(
                "SELECT picture, MAX(seconds) FROM answers WHERE participant = ? GROUP BY picture", (code,)
            )
        )

    def rows(self) -> list[dict[str, Any]]:
        """Every answer as a row of the export (ratings.COLUMNS), by participant and the order shown."""
        found: list[dict[str, Any]] = []
        criteria = {one.name: i for i, one in enumerate(self.study.criteria)}
        for code, number in self._read(
            "SELECT code, number FROM participants WHERE number IS NOT NULL ORDER BY number"
        ):
            order = {
                output.id: (i, case, output)
                for i, (case, output) in enumerate(shown_order(self.study, number))
            }
            given = self._read(
                "SELECT picture, criterion, value, seconds, given, changes FROM answers WHERE participant = "
                "?",
                (code,),
            )
            mine = [row for row in given if row[0] in order and row[1] in criteria]
            for picture, criterion, value, seconds, when, changes in sorted(
                mine, key=lambda row: (order[row[0]][0], criteria[row[1]])
            ):
                place, case, output = order[picture]
                found.append(
                    {
                        "participant": code,
                        "case": case.name,
                        "n": case.n,
                        "sample": case.sample,
                        "method": output.method,
                        "picture": picture,
                        "place": place + 1,
                        "criterion": criterion,
                        "value": value,
                        "seconds": round(seconds, 1),
                        "changes": changes,
                        "given": datetime.fromtimestamp(when, timezone.utc).isoformat(
                            timespec="milliseconds"
                        ),
                        "source": "people",
                    }
                )
        return found


_FIELDS = "code, label, number, created, consented, finished"


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(5))


def open_answers(study: Study, create: bool = False) -> AnswerStore:
    """The answers of a study; without `create` they must have begun."""
    if not create and not Path(study.answers_path).exists():
        raise InputError(
            f"{shown(study.answers_path)}: nobody has been invited yet; begin with mast study serve or invite"
        )
    return AnswerStore(study)
