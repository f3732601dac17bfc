"""The app: its commands in the order people need them, each imported when it is asked for.

To add a command: write its file, with a function (or, for a group, a `typer.Typer`), and name it here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .options import OUTPUT, flag

COMMANDS = {
    "demo": "demo.demo",
    "stylize": "stylize.stylize",
    "studio": "studio.studio",
    "regions": "regions.regions",
    "assign": "assign.assign",
    "compare": "compare.compare",
    "replay": "replay.replay",
    "job": "job.job",
    "methods": "catalogue.methods",
    "models": "catalogue.models",
    "weights": "weights.weights",
    "cache": "cache.cache",
    "eval": "evaluate.evaluate",
    "analyze": "analyze.analyze",
    "figure": "figures.figure",
    "bench": "bench.bench",
    "study": "study.study",
}


class InOrder(TyperGroup):
    """A group whose commands are found by name, so that one command's help imports no other command."""

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)
        if found is not None:
            found.metavar = ""
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:  # all, to suggest the nearest
            if name not in self.commands:
                self.commands[name] = _built(name)
        return self.commands.get(cmd_name)


def _built(name: str) -> Any:
    module, attribute = COMMANDS[name].split(".")
    found = getattr(import_module(f".{module}", __package__), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name)(found)
        found = alone
    command = _with_plain_help(get_command(found))
    command.name = name
    return command


def _with_plain_help(command: Any) -> Any:
    """--help as the last of the output options, and not as <bool>."""
    inherited = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        found = inherited(ctx)
        if found is not None:
            found.metavar, found.rich_help_panel = "", OUTPUT if command.params else None
        return found

    command.get_help_option = get_help_option
    for one in getattr(command, "commands", {}).values():
        _with_plain_help(one)
    return command


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Regional multi-style transfer: every part of a photo in the style of its own painting.",
)


@app.callback()
def top(
    version: Annotated[bool, flag("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from .. import __version__

        print(f"mast {__version__}")
        raise typer.Exit()
