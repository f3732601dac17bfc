"""The studio as a running server: the token, the port, the browser, and an end that loses nothing."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from ..job import InputError
from .app import create_app
from .desk import Desk
from .listening import TOKEN, address_of, kept_token
from .pictures import USUAL, Limits
from .safety import COOKIE, EVERYWHERE, LOCAL, Access


def data_folder() -> Path:
    """mast-studio in the platform's folder for a user's data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        given = os.environ.get("XDG_DATA_HOME", "")
        base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
    return base / "mast-studio"


def workspace_token(data: Path) -> str:
    """Random, and the same at the next start: a workspace outlives the server."""
    return kept_token(data / "token", "give --data another folder")


def access_for(
    host: str, port: int, tokens: Sequence[str], people: Mapping[str, str], data: Path, names: Sequence[str]
) -> Access:
    """Who may come in. A server that others can reach needs a token or a password that somebody chose."""
    if host not in LOCAL and not tokens and not people:
        raise InputError(
            f"--host {host}: others can reach it, so say who may come in with --token TOKEN or --auth "
            "NAME:PASSWORD"
        )
    for token in tokens:
        if not TOKEN.fullmatch(token):
            raise InputError("--token: give 8 to 200 letters, digits, - or _")
    own = (*tokens,) if tokens or people else (workspace_token(data),)
    here = {socket.gethostname().lower()} if host in EVERYWHERE else set()
    return Access(
        own, dict(people), frozenset({host.lower(), *here, *map(str.lower, names)}), f"{COOKIE}_{port}"
    )


class _Server(uvicorn.Server):
    """Tells when it answers, and ends its streams when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]):
        super().__init__(config)
        self.ready, self.ending = ready, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.ending()
        super().handle_exit(sig, frame)


def serve(
    access: Access,
    bound: socket.socket,
    data: Path,
    model: str,
    device: str,
    browser: bool,
    said: Callable[[str], None],
    limits: Limits = USUAL,
) -> None:
    """Runs until it is stopped. said: told the address when the page is there."""
    desk = Desk(data, model, device, limits)
    address = f"{address_of(bound)}/" + (f"?token={access.tokens[0]}" if access.tokens else "")

    def ready() -> None:
        said(address)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    config = uvicorn.Config(
        create_app(desk, access),
        log_level="warning",
        access_log=False,  # addresses may hold a token
        server_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=75,  # longer than a client keeps a line it means to use again
        h11_max_incomplete_event_size=32 << 10,
    )
    _Server(config, ready, desk.hub.close).run(sockets=[bound])
