"""The command line. Exit codes: 0 done, 2 bad input or usage, 130 stopped (Ctrl-C, kill, a closed
terminal), 1 anything else.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STOPPED = "stopped; nothing half-written is left, finished inversions are kept"


def main() -> None:
    """The console script."""
    for name in ("SIGTERM", "SIGHUP"):  # a polite kill and a closed terminal end like Ctrl-C
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, _terminated)
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
    from ..job import Cancelled, InputError
    from .app import app
    from .console import any_name_can_be_printed, say

    any_name_can_be_printed()
    try:
        app()
    except InputError as error:
        say(("mast:", "bold red"), f" {error}")
        sys.exit(2)
    except Cancelled as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if os.environ.get("MAST_DEBUG"):
            raise
        say(("mast:", "bold red"), f" {type(error).__name__}: {error} (MAST_DEBUG=1 shows where)")
        sys.exit(1)


def _terminated(*_: Any) -> None:
    raise KeyboardInterrupt
