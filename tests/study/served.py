"""A rating server on a free port, in a thread or as its own process, and a client that speaks plain HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mast.studio.listening import free_socket
from mast.study.answers import AnswerStore
from mast.study.folder import Study
from mast.study.server import Rules, StudyAccess, build_app

TOKEN = "researchers-own-token-of-tests"
COOKIE = "mast_study_test"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Somebody with a token (or without), who asks one server."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port, self.token = port, token

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Reply:
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            verb = method or ("GET" if data is None else "POST")
            connection.request(verb, path, data, {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            found = {key.lower(): value for key, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def rate(self, picture: str, criterion: str, value: int, seconds: float = 20.0) -> Reply:
        given = {"picture": picture, "criterion": criterion, "value": value, "seconds": seconds}
        return self.ask("/api/answers", given)


@contextmanager
def in_thread(study: Study, rules: Rules) -> Iterator[tuple[int, AnswerStore]]:
    """The server in this process; the port, and the store it writes to."""
    import uvicorn

    store = AnswerStore(study)
    bound = free_socket("127.0.0.1", 0, 0)
    access = StudyAccess((TOKEN,), hosts=frozenset({"127.0.0.1"}), cookie=COOKIE, store=store)
    server = uvicorn.Server(
        uvicorn.Config(build_app(study, access, rules), log_level="warning", access_log=False)
    )
    bound.listen(64)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield bound.getsockname()[1], store
    finally:
        server.should_exit = True
        thread.join()
        store.close()


class Served:
    """`mast study serve` as its own process, which can be killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from mast.cli import main; main()",
                "study",
                "serve",
                str(folder),
                *options,
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"researcher's page: http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line):
                self.port, self.token = int(found[1]), found[2]
                return
        raise AssertionError(self.said)

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """As a power cut would: no chance to tidy up."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
