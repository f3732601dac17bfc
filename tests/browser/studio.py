"""A studio in a process of its own, as a person starts it, which tests may kill and start again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

TOKEN = "browser-tests-token"
PATIENCE = 120.0  # seconds for anything at all: machines are slow and busy


class Studio:
    """model: as `--model` takes it; data: the folder that outlives the process."""

    def __init__(self, model: str, data: Path, cache: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.model, self.data, self.cache = model, data, cache
        self.home = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Studio:
        words = ["studio", "--no-browser", "--port", str(self.port), "--data", str(self.data)]
        words += ["--token", TOKEN, "--model", self.model, "--device", "cpu"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from mast.cli import main; main()", *words],
            env={**os.environ, "MAST_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.until(self.answers, "the studio answers")
        return self

    def answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "the studio ended by itself"
        try:
            return bool(self.get("status"))
        except OSError:
            return False

    def kill(self) -> None:
        """As the power going out does: the server and its children, at once."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    # ------------------------------------------------------------------------------------ asking it directly

    def get(self, path: str) -> Any:
        with urlopen(
            Request(f"{self.home}/api/{path}", headers={"Authorization": f"Bearer {TOKEN}"}), timeout=30
        ) as answer:
            return json.load(answer)

    def jobs(self) -> list[dict[str, Any]]:
        return self.get("jobs?limit=50")["jobs"]

    def until(self, true: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.1)
        raise AssertionError(f"waited {PATIENCE:.0f} s in vain: {what}")
