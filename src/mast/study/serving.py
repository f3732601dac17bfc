"""The rating server as a running process: the names it is asked for by, and what its links begin with."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from ..job import InputError
from ..studio.listening import address_of
from ..studio.safety import EVERYWHERE
from .answers import AnswerStore
from .folder import Study
from .server import COOKIE, Rules, StudyAccess, build_app, researcher_token

PORT = 8431


def check_address(address: str) -> str:
    """What links begin with: http(s)://HOST[:PORT], nothing behind it."""
    found = urlsplit(address)
    if found.scheme not in ("http", "https") or not found.hostname or found.path.strip("/") or found.query:
        raise InputError(f"--address {address}: write what links begin with, as in https://study.example.org")
    return address.rstrip("/")


def serve(
    study: Study,
    store: AnswerStore,
    bound: socket.socket,
    rules: Rules,
    names: Sequence[str],
    said: Callable[[str], None],
) -> None:
    """Runs until it is stopped. names: hosts it is asked for by; said: told the researcher's address."""
    try:
        import uvicorn
    except ImportError as error:
        raise InputError("the rating server needs uvicorn: pip install 'mast[study]'") from error
    token = researcher_token(study)
    here, port = bound.getsockname()[:2]
    hosts = {here, *names}
    if rules.address is not None:
        hosts.add(urlsplit(rules.address).hostname or "")
    if here in EVERYWHERE:
        hosts.add(socket.gethostname().lower())
    access = StudyAccess((token,), hosts=frozenset(hosts), cookie=f"{COOKIE}_{port}", store=store)
    app = build_app(study, access, rules)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses hold tokens
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    bound.listen(128)  # from here on nobody is turned away
    said(f"{rules.address or address_of(bound)}/?token={token}")
    server.run(sockets=[bound])
