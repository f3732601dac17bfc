"""mast stylize --server: painted there, replayed here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import folder, refused, run  # noqa: F401
from tests.studio.conftest import ALPHA, ROOT

PICTURES = ("photo.png", "-r", "left.png=a.png@0.7", "-r", "rest=b.png")


def test_a_studio_paints_and_the_record_replays_here(studio, run):  # noqa: F811
    server = f"{studio.address}/?token={ALPHA}"
    words = ("--server", server, "--size", 64, "--steps", 3, "--pi", 0.8, "--contact-sheet")
    outcome = run("stylize", *PICTURES, *words, "-o", "out.png", "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report["method"]["pi"] == 0.8 and Path("out.sheet.png").is_file()
    record = json.loads(Path("out.json").read_text())
    assert record["content"]["path"] == "photo.png" and record["regions"][0]["mask"]["path"] == "left.png"
    replayed = run("replay", "out.png", "--json")
    assert replayed.code == 0 and json.loads(replayed.out)["equal"]
    here = run("stylize", *PICTURES, *words[2:], "-o", "here.png", "--quiet")
    assert here.code == 0 and Path("here.png").read_bytes() == Path("out.png").read_bytes()


def test_a_colour_of_a_map_is_sent_as_a_mask(studio, run, monkeypatch):  # noqa: F811
    monkeypatch.setenv("MAST_TOKEN", ALPHA)
    words = ("--map", "map.png", "-s", "#ff0000=a.png", "-r", "rest=b.png", "--size", 64, "--steps", 3)
    outcome = run("stylize", "photo.png", *words, "--server", studio.address, "-o", "out.png")
    assert outcome.code == 0, outcome.err
    assert json.loads(Path("out.json").read_text())["regions"][0]["mask"]["colour"] == "ff0000"
    assert run("replay", "out.png").code == 0


def test_what_cannot_be_is_refused_before_anything_is_sent(studio, refused):  # noqa: F811
    right = f"{studio.address}/?token={ALPHA}"
    stylize = ("stylize", *PICTURES, "-o", "out.png", "--server")
    before = len(studio.get("/api/jobs?limit=200")["jobs"])
    assert "a token is needed" in refused(*stylize, studio.address)
    assert "no studio answers" in refused(*stylize, "http://127.0.0.1:1/?token=abc")
    assert "give the address" in refused(*stylize, "ftp://127.0.0.1/x")
    assert "the server's to choose" in refused(*stylize, right, "--device", "cpu")
    assert "pi is 2" in refused(*stylize, right, "--pi", 2)
    assert len(studio.get("/api/jobs?limit=200")["jobs"]) == before


def test_a_job_that_fails_there_is_said_here(studio, refused):  # noqa: F811
    words = ("--size", 64, "--steps", 300)  # more than the studio takes
    server = f"{studio.address}/?token={ALPHA}"
    assert "steps" in refused("stylize", *PICTURES, "-o", "out.png", "--server", server, *words)


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_cancels_there(studio, folder, own_cache):  # noqa: F811
    server = f"{studio.address}/?token={ALPHA}"
    words = ["stylize", *PICTURES, "-o", "out.png", "--server", server, "--size", "64", "--steps", "150"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    known = {job["id"] for job in studio.get("/api/jobs?limit=200")["jobs"]}
    client = subprocess.Popen(
        [sys.executable, "-c", "from mast.cli import main; main()", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    for _ in range(2400):
        new = [job for job in studio.get("/api/jobs?limit=5")["jobs"] if job["id"] not in known]
        if new and new[0]["progress"]:
            break
        time.sleep(0.1)
    client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 130 and "stopped" in said
    assert studio.ended(new[0]["id"])["state"] == "cancelled"
    assert not Path("out.png").exists()
