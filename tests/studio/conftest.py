"""A real studio in a process of its own, on the embedded model at 64 pixels; and the app alone."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from mast.studio.app import create_app
from mast.studio.desk import Desk
from mast.studio.pictures import Limits
from mast.studio.safety import Access
from tests.tiny import halves, picture

ROOT = Path(__file__).parents[2]
ALPHA, BETA = "alpha-token", "beta-token"
TINY = {"size": 64, "steps": 3}
SLOW = {"size": 64, "steps": 150}
PATIENCE = 240  # seconds until a test gives up: machines may be busy


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, format="PNG")
    return data.getvalue()


PHOTO, STYLE_A, STYLE_B = (png(picture(96, 64, seed)) for seed in (1, 2, 3))
LEFT = png(Image.fromarray((halves(96, 64)[0] * 255).astype(np.uint8)))


class Studio:
    """`mast studio` as people run it, and a client of it."""

    def __init__(self, folder: Path, *options: str):
        self.folder, self.options = folder, options
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "MAST_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        words = ["studio", "--no-browser", "--port", "0", "--data", str(self.folder / "data")]
        words += [*self.options, "--token", ALPHA, "--token", BETA]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from mast.cli import main; main()", *words],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.said: list[str] = []
        self.listener = threading.Thread(target=self._listen, args=(self.process.stderr,), daemon=True)
        self.listener.start()
        self.address = self._address()
        self.clients: list[httpx.Client] = []
        self.client = self.with_token(ALPHA)

    def _listen(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.said.append(line)

    def _address(self) -> str:
        for _ in range(PATIENCE * 20):
            found = re.search(r"(http://127\.0\.0\.1:\d+)/", "".join(self.said))
            if found:
                return found[1]
            assert self.process.poll() is None, "".join(self.said)
            time.sleep(0.05)
        raise AssertionError("the studio has not started")

    def with_token(self, token: str) -> httpx.Client:
        client = httpx.Client(
            base_url=self.address,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
        )
        self.clients.append(client)
        return client

    def kill(self) -> None:
        """At once, without a word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """A connection left open would be a warning in whichever test runs when it is collected."""
        for client in self.clients:
            client.close()
        self.listener.join(PATIENCE)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.hang_up()

    # -------------------------------------------------------------------------------------------- asking

    def get(self, path: str) -> Any:
        return checked(self.client.get(path)).json()

    def job(self, id: str) -> dict[str, Any]:
        return self.get(f"/api/jobs/{id}")

    def submit(self, **changes: Any) -> dict[str, Any]:
        return checked(self.client.post("/api/jobs", json={**self.request, **changes})).json()

    @property
    def request(self) -> dict[str, Any]:
        """Two regions of a 96x64 photo, in three steps."""
        if not hasattr(self, "_ids"):
            self._ids = [upload(self.client, data)["id"] for data in (PHOTO, LEFT, STYLE_A, STYLE_B)]
        photo, left, a, b = self._ids
        return {
            "photo": photo,
            "regions": [
                {"name": "left", "style": a, "mask": left, "strength": 0.8, "colour": "#3cb44b"},
                {"name": "the rest", "style": b, "mask": None},
            ],
            "settings": TINY,
        }

    def until(self, id: str, *states: str) -> dict[str, Any]:
        """The job, once it is in one of these states."""
        for _ in range(PATIENCE * 20):
            job = self.job(id)
            if job["state"] in states:
                return job
            time.sleep(0.05)
        raise AssertionError(f"never {states}: {job}")

    def ended(self, id: str) -> dict[str, Any]:
        return self.until(id, "done", "failed", "cancelled")

    def events(self, id: str) -> Iterator[tuple[str, Any]]:
        """Until the stream ends."""
        with self.client.stream("GET", f"/api/jobs/{id}/events") as stream:
            assert stream.status_code == 200
            kind = ""
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    @property
    def worker(self) -> int:
        """The number of the process that paints."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        numbers = [int(number) for path in children for number in path.read_text().split()]
        found = [n for n in numbers if b"spawn_main" in Path(f"/proc/{n}/cmdline").read_bytes()]
        assert len(found) == 1
        return found[0]


def checked(response: httpx.Response) -> httpx.Response:
    assert response.is_success, (response.status_code, response.text)
    return response


def upload(client: Any, data: bytes) -> dict[str, Any]:
    return checked(client.post("/api/images", content=data)).json()


@pytest.fixture(scope="package")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all tests that leave it as it is."""
    running = Studio(tmp_path_factory.mktemp("studio"))
    yield running
    running.stop()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Without its processes: nothing is painted."""
    made = Desk(tmp_path / "data", "preview", "cpu", Limits(bytes=1 << 20, pixels=1_000_000, waiting=5))
    yield made
    made.store.close()


@pytest.fixture
def access() -> Access:
    return Access((ALPHA, BETA), {"anna": "her-password"}, frozenset({"studio.example"}), "mast_token_1")


@pytest.fixture
def client(desk: Desk, access: Access) -> Iterator[Any]:
    """Asks the app in this process, with the first token."""
    yield from in_process(desk, access, Authorization=f"Bearer {ALPHA}")


def in_process(desk: Desk, access: Access, **headers: str) -> Iterator[Any]:
    from starlette.testclient import TestClient

    app = create_app(desk, access)
    yield TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, headers=headers)
