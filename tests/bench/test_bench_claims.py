"""A picture is made by one worker at a time, and a claim ends with its process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from mast.bench.run.claims import CLAIMS, alone, claimed


def test_a_claim_excludes_others_for_as_long_as_it_lasts(tmp_path: Path):
    with claimed(tmp_path, "a") as ours:
        assert ours
        with claimed(tmp_path, "a") as again, claimed(tmp_path, "b") as other:
            assert not again and other
    with claimed(tmp_path, "a") as later:
        assert later
    assert list((tmp_path / CLAIMS).iterdir()) == []


def test_a_refused_claim_leaves_the_holders_lock_alone(tmp_path: Path):
    with claimed(tmp_path, "a"):
        with claimed(tmp_path, "a"):
            pass
        assert (tmp_path / CLAIMS / "a.lock").exists()
        with claimed(tmp_path, "a") as ours:
            assert not ours


def test_a_lock_file_without_a_holder_claims_nothing(tmp_path: Path):
    (tmp_path / CLAIMS).mkdir()
    (tmp_path / CLAIMS / "a.lock").touch()  # what a killed run leaves
    with claimed(tmp_path, "a") as ours:
        assert ours


def test_a_killed_process_holds_nothing(tmp_path: Path):
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with claimed(tmp_path, "a"):
            os.write(tell, b"x")
            signal.pause()
        os._exit(0)
    try:
        assert os.read(told, 1) == b"x"
        with claimed(tmp_path, "a") as ours:
            assert not ours
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with claimed(tmp_path, "a") as ours:
        assert ours


def test_no_two_processes_are_ever_inside_together(tmp_path: Path):
    """Locks are removed when they are released; whoever has opened the removed file must notice."""
    inside, log = tmp_path / "inside", tmp_path / "log"

    def visit() -> None:
        for _ in range(200):
            with alone(tmp_path / "door.lock"):
                handle = os.open(inside, os.O_CREAT | os.O_EXCL)  # fails where somebody else is in
                os.close(handle)
                inside.unlink()
        log.open("a").write("x")

    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                visit()
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert log.read_text() == "xxxx"
