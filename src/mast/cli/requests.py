"""One set of options for several commands: a dataclass whose fields are typer's, in place of a parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints


def with_request(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command, whose first parameter is such a dataclass, the options of one in its place."""
    own_hints = get_type_hints(command, include_extras=True)
    first, *own = inspect.signature(command).parameters.values()
    request: Any = own_hints[first.name]
    hints = get_type_hints(request, include_extras=True)
    shared = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(f),
            annotation=hints[f.name],
        )
        for f in fields(request)
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[p.name]) for p in own]

    def called(**given: Any) -> None:
        command(request(**{f.name: given.pop(f.name) for f in fields(request)}), **given)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in [*shared, *own]}
    return called


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()
