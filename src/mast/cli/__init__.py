"""The command line. Exit codes: 0 done, 2 bad input or usage, 130 Ctrl-C, 1 anything else."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script."""
    from ..job import Cancelled, InputError
    from .app import app, say

    try:
        app()
    except InputError as error:
        say(f"[bold red]mast:[/] {_plain(str(error))}")
        sys.exit(2)
    except (KeyboardInterrupt, Cancelled):
        say("[yellow]stopped;[/] nothing half-written is left, finished inversions are kept")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("MAST_DEBUG"):
            raise
        say(f"[bold red]mast:[/] {type(error).__name__}: {_plain(str(error))} (MAST_DEBUG=1 shows where)")
        sys.exit(1)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
