"""A process of the studio's own, started on demand, with a pipe to talk over.

Spawned, not forked: a fork would copy a server's threads half-dead. A child ends with the server, even when
that is killed: its pipe ends then.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 10.0  # seconds a child has to put its things away before it is killed


class Child:
    """life: a function of a module, called in the child with its end of the pipe and the arguments."""

    def __init__(self, life: Callable[..., None], *arguments: Any):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._sending = threading.Lock()
        self.process = context.Process(target=_live, args=(life, theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the child does

    def send(self, *message: Any) -> None:
        """To one that has died nothing is said; who reads the pipe will see it."""
        with self._sending, suppress(OSError, ValueError):
            self.pipe.send(message)

    def cause(self) -> str:
        """Why it ended, for people."""
        self.process.join(PATIENCE)
        code = self.process.exitcode
        if code is None:
            return "it hangs"
        if code < 0:
            names = {int(one): one.name for one in signal.Signals}
            short = ", as when memory runs out" if -code == getattr(signal, "SIGKILL", 9) else ""
            return f"it was ended by {names.get(-code, -code)}{short}"
        return f"exit code {code}"

    def end(self) -> None:
        """Politely first."""
        with suppress(OSError):
            self.pipe.close()
        self.process.terminate()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _live(life: Callable[..., None], pipe: Connection, arguments: tuple[Any, ...]) -> None:
    """In the child. Ctrl-C goes to all processes of a terminal; the server says when to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        life(pipe, *arguments)
