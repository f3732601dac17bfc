"""What the studio keeps: jobs and pictures in SQLite, their files in folders, one folder a workspace.

A job is confirmed when its row is written, and its row is written after its files: a process killed at any
moment leaves either a whole job or files that nobody knows, which the next start removes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import new_folder, remove_leftovers
from ..job import InputError

SCHEMA = """
CREATE TABLE IF NOT EXISTS images(
    workspace TEXT, id TEXT, file TEXT, width INTEGER, height INTEGER, bytes INTEGER, created REAL,
    PRIMARY KEY(workspace, id));
CREATE TABLE IF NOT EXISTS jobs(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, workspace TEXT, state TEXT, draft INTEGER,
    key TEXT, request TEXT, created REAL, started REAL, finished REAL, attempts INTEGER DEFAULT 0, error TEXT,
    outcome TEXT, UNIQUE(workspace, key));
CREATE INDEX IF NOT EXISTS by_state ON jobs(state, seq);
CREATE INDEX IF NOT EXISTS by_workspace ON jobs(workspace, seq);
CREATE TABLE IF NOT EXISTS uses(workspace TEXT, image TEXT, job TEXT);
CREATE INDEX IF NOT EXISTS by_image ON uses(workspace, image);
CREATE INDEX IF NOT EXISTS by_job ON uses(job);
"""
ATTEMPTS = 3  # times that a job may be begun: one that brings the whole machine down is not tried for ever
ACTIVE = ("queued", "running")


@dataclass(frozen=True)
class StoredImage:
    """A picture as it was sent, byte by byte."""

    id: str
    path: Path
    width: int
    height: int


@dataclass(frozen=True)
class StoredJob:
    """outcome: notes, seconds and what was made, when there is something to tell."""

    seq: int
    id: str
    workspace: str
    state: str
    draft: bool
    key: str | None
    request: dict[str, Any]
    created: float
    started: float | None
    finished: float | None
    attempts: int
    error: str | None
    outcome: dict[str, Any]


class StudioStore:
    """Any thread may call it. folder: of the studio's data, which belongs to one process at a time."""

    def __init__(self, folder: Path):
        self.folder, self._lock = folder, threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(
                folder / "studio.sqlite", check_same_thread=False, isolation_level=None, timeout=1
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")  # two studios would take each other's jobs
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(SCHEMA)
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise InputError(
                f"{folder}: another studio uses this folder ({error}); stop it, or give --data another one"
            ) from error
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{folder}: cannot be used ({error}); give --data another folder") from error
        self.secret = self._secret()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _secret(self) -> bytes:
        """What makes the names of pictures unguessable, the same at every start."""
        path = self.folder / "secret"
        if not path.exists():
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        return path.read_text().strip().encode()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """All of it, on disk, or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    # -------------------------------------------------------------------------------------------- pictures

    def images_folder(self, workspace: str) -> Path:
        folder = self.folder / "workspaces" / workspace / "images"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def add_image(
        self, workspace: str, id: str, part: Path, suffix: str, size: tuple[int, int]
    ) -> StoredImage:
        """Takes a finished file over; the same picture twice is kept once."""
        with self._lock:
            target = self.images_folder(workspace) / f"{id}{suffix}"
            count = part.stat().st_size
            os.replace(part, target)
            with self._change() as db:
                db.execute(
                    "INSERT OR REPLACE INTO images VALUES(?, ?, ?, ?, ?, ?, ?)",
                    (workspace, id, target.name, *size, count, time.time()),
                )
        return StoredImage(id, target, *size)

    def image(self, workspace: str, id: str) -> StoredImage | None:
        rows = self._rows("SELECT * FROM images WHERE workspace=? AND id=?", workspace, id)
        if not rows:
            return None
        path = self.folder / "workspaces" / workspace / "images" / rows[0]["file"]
        return StoredImage(id, path, rows[0]["width"], rows[0]["height"])

    def bytes_of(self, workspace: str) -> int:
        """That the pictures of a workspace take."""
        return int(
            self._rows("SELECT COALESCE(SUM(bytes), 0) FROM images WHERE workspace=?", workspace)[0][0]
        )

    # -------------------------------------------------------------------------------------------- jobs

    def job_folder(self, workspace: str, id: str) -> Path:
        return self.folder / "workspaces" / workspace / "jobs" / id

    def add_job(
        self,
        workspace: str,
        request: Mapping[str, Any],
        files: Mapping[str, Path],
        used: Iterable[str],
        draft: bool,
        key: str | None,
    ) -> StoredJob:
        """files: what the job reads, by the name it shall have in the job's folder; used: pictures' ids."""
        id = secrets.token_hex(16)
        target = self.job_folder(workspace, id)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with new_folder(target) as folder:
            for name, path in files.items():
                self._link(path, folder / name)
        try:
            with self._change() as db:
                db.execute(
                    "INSERT INTO jobs(id, workspace, state, draft, key, request, created) "
                    "VALUES(?, ?, 'queued', ?, ?, ?, ?)",
                    (id, workspace, int(draft), key, json.dumps(request), time.time()),
                )
                db.executemany(
                    "INSERT INTO uses VALUES(?, ?, ?)", [(workspace, one, id) for one in set(used)]
                )
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        found = self.job(workspace, id)
        assert found is not None
        return found

    def _link(self, path: Path, target: Path) -> None:
        """Pictures of the store never change; others may."""
        try:
            if self.folder not in path.parents:
                raise OSError
            os.link(path, target)
        except OSError:  # also a disk without links
            shutil.copyfile(path, target)

    def job(self, workspace: str, id: str) -> StoredJob | None:
        return _first(self._rows("SELECT * FROM jobs WHERE workspace=? AND id=?", workspace, id))

    def job_by_key(self, workspace: str, key: str) -> StoredJob | None:
        return _first(self._rows("SELECT * FROM jobs WHERE workspace=? AND key=?", workspace, key))

    def jobs(self, workspace: str, limit: int, before: str | None = None) -> list[StoredJob]:
        """Newest first; before: those older than this one."""
        seq = 1 << 62
        if before is not None:
            found = self.job(workspace, before)
            seq = found.seq if found is not None else 0
        rows = self._rows(
            "SELECT * FROM jobs WHERE workspace=? AND seq<? ORDER BY seq DESC LIMIT ?", workspace, seq, limit
        )
        return [_job(row) for row in rows]

    def active(self, workspace: str | None = None, draft: bool | None = None) -> list[StoredJob]:
        """Those that wait or run, in the order of the queue; of one workspace, if given."""
        rows = self._rows("SELECT * FROM jobs WHERE state IN ('queued', 'running') ORDER BY seq")
        found = [_job(row) for row in rows]
        return [
            job
            for job in found
            if (workspace is None or job.workspace == workspace) and (draft is None or job.draft == draft)
        ]

    def position(self, job: StoredJob) -> int | None:
        """In the queue, the next one at 1."""
        if job.state != "queued":
            return None
        before = "SELECT COUNT(*) FROM jobs WHERE state='queued' AND seq<?"
        return 1 + int(self._rows(before, job.seq)[0][0])

    def begin_next(self) -> StoredJob | None:
        """The oldest waiting job, which is now under way."""
        with self._change() as db:
            row = db.execute("SELECT id FROM jobs WHERE state='queued' ORDER BY seq LIMIT 1").fetchone()
            if row is None:
                return None
            db.execute(
                "UPDATE jobs SET state='running', started=?, attempts=attempts+1 WHERE id=?",
                (time.time(), row["id"]),
            )
            return _job(db.execute("SELECT * FROM jobs WHERE id=?", (row["id"],)).fetchone())

    def finish(
        self, id: str, state: str, error: str | None = None, outcome: Mapping[str, Any] | None = None
    ) -> bool:
        """Ends a job that waits or runs; False where it had ended already."""
        with self._change() as db:
            done = db.execute(
                "UPDATE jobs SET state=?, error=?, outcome=?, finished=? "
                "WHERE id=? AND state IN ('queued', 'running')",
                (state, error, json.dumps(outcome or {}), time.time(), id),
            )
            return done.rowcount == 1

    def cancel_waiting(self, id: str) -> bool:
        """True where it waited and now never begins."""
        with self._change() as db:
            done = db.execute(
                "UPDATE jobs SET state='cancelled', outcome='{}', finished=? WHERE id=? AND state='queued'",
                (time.time(), id),
            )
            return done.rowcount == 1

    def delete(self, job: StoredJob) -> bool:
        """With its files; not one that runs."""
        with self._change() as db:
            done = db.execute("DELETE FROM jobs WHERE id=? AND state<>'running'", (job.id,))
            if done.rowcount == 1:
                db.execute("DELETE FROM uses WHERE job=?", (job.id,))
        if done.rowcount == 1:
            shutil.rmtree(self.job_folder(job.workspace, job.id), ignore_errors=True)
        return done.rowcount == 1

    def take_up(self) -> list[StoredJob]:
        """At a start: what was under way waits again, at its old place. Returns those given up."""
        with self._change() as db:
            db.execute("UPDATE jobs SET state='queued', started=NULL WHERE state='running'")
        often = [job for job in self.active() if job.attempts >= ATTEMPTS]
        for job in often:
            self.finish(
                job.id, "failed", f"the studio was stopped {ATTEMPTS} times in the middle of this job"
            )
        return often

    # -------------------------------------------------------------------------------------------- tidying

    def tidy(self, unused: float, drafts: int) -> None:
        """Removes what nobody needs: drafts that came to nothing, all but the newest, and pictures that
        no job uses and that came more than `unused` seconds ago.
        """
        now = time.time()
        ended = self._rows(
            "SELECT * FROM jobs WHERE draft=1 AND state NOT IN ('queued', 'running') ORDER BY seq DESC"
        )
        kept: dict[str, int] = {}
        for job in map(_job, ended):
            kept[job.workspace] = kept.get(job.workspace, 0) + (job.state == "done")
            empty = job.state != "done" and (job.finished or 0) < now - 3600
            if empty or kept[job.workspace] > drafts:
                self.delete(job)
        with self._change() as db:
            free = db.execute(
                "SELECT workspace, id, file FROM images AS i WHERE created<? AND NOT EXISTS "
                "(SELECT 1 FROM uses AS u WHERE u.workspace=i.workspace AND u.image=i.id)",
                (now - unused,),
            ).fetchall()
            for row in free:
                db.execute("DELETE FROM images WHERE workspace=? AND id=?", (row["workspace"], row["id"]))
        for row in free:
            (self.images_folder(row["workspace"]) / row["file"]).unlink(missing_ok=True)

    def tidy_files(self) -> None:
        """At a start, before anybody asks: files and folders that no row knows."""
        for workspace in sorted((self.folder / "workspaces").glob("*")):
            known = {row["id"] for row in self._rows("SELECT id FROM jobs WHERE workspace=?", workspace.name)}
            files = {
                row["file"] for row in self._rows("SELECT file FROM images WHERE workspace=?", workspace.name)
            }
            for folder in (workspace / "jobs").glob("*"):
                remove_leftovers(folder)
                if folder.name not in known:
                    shutil.rmtree(folder, ignore_errors=True)
            for file in (workspace / "images").glob("*"):
                if file.name not in files:
                    file.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "incoming", ignore_errors=True)


def _first(rows: list[sqlite3.Row]) -> StoredJob | None:
    return _job(rows[0]) if rows else None


def _job(row: sqlite3.Row) -> StoredJob:
    values = dict(row)
    values["draft"] = bool(values["draft"])
    values["request"] = json.loads(values["request"])
    values["outcome"] = json.loads(values["outcome"] or "{}")
    return StoredJob(**values)
