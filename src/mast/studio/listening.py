"""Where a server of ours listens, and the token it keeps: for the studio and for the study alike."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path

from ..job import InputError
from .safety import EVERYWHERE

TOKEN = re.compile(r"[A-Za-z0-9_-]{8,200}", re.ASCII)


def kept_token(path: Path, way_out: str) -> str:
    """Made once, kept in the file, readable by its owner alone. way_out: where the folder cannot be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(24) + "\n")
        token = path.read_text().strip()
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be used ({error.strerror}); {way_out}") from error
    if not TOKEN.fullmatch(token):
        raise InputError(f"{path}: holds no token; remove the file, and a new one is made")
    return token


def free_socket(host: str, port: int | None, wished: int) -> socket.socket:
    """Bound to the port given; without one, to the usual port or, where that is taken, to any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if port is not None else [wished, 0]:
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, candidate))
        except (OSError, OverflowError) as error:
            bound.close()
            if candidate == 0 or port is not None:
                raise InputError(
                    f"{host}:{candidate}: cannot be used ({error}); give another --port"
                ) from error
            continue
        return bound
    raise AssertionError("the loop returns or raises")


def address_of(bound: socket.socket) -> str:
    """What its links begin with, for a browser on this machine."""
    host, port = bound.getsockname()[:2]
    name = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
