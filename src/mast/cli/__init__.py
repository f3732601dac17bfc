"""The command line. Exit codes: 0 done, 2 bad input or usage, 130 Ctrl-C, 1 anything else."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STOPPED = "stopped; nothing half-written is left, finished inversions are kept"


def main() -> None:
    """The console script."""
    signal.signal(signal.SIGTERM, _terminated)  # a polite kill ends like Ctrl-C: nothing half-written
    try:
        _run()
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        sys.exit(130)
    except SystemExit as end:
        if end.code == 130:  # typer's answer to Ctrl-C
            print(STOPPED, file=sys.stderr)
        raise


def _run() -> None:
    from rich.markup import escape

    from ..job import Cancelled, InputError
    from .app import app, say

    try:
        app()
    except InputError as error:
        say(f"[bold red]mast:[/] {escape(str(error))}")
        sys.exit(2)
    except Cancelled as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if os.environ.get("MAST_DEBUG"):
            raise
        say(f"[bold red]mast:[/] {type(error).__name__}: {escape(str(error))} (MAST_DEBUG=1 shows where)")
        sys.exit(1)


def _terminated(*_: Any) -> None:
    raise KeyboardInterrupt
