"""A method and its options as text, the same on every command line and in every file.

mast                       the method as the model likes it
mast:lam=0.1,ddi=off       options, named mast-lam0.1-no-ddi
soft=mast:tau=1.25         the same with a name of one's own
mast:tau=.11/.65/1         tau's three coefficients (commas are read too)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

from ..job import InputError
from . import METHODS, make
from .method import option_names

SHAPE = re.compile(r"(?:(?P<name>[^=:]+)=)?(?P<method>[^=:]+)(?::(?P<options>.+))?")
WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


@dataclass(frozen=True)
class MethodSpec:
    """A method by name with the options that differ from what the model's defaults give.

    name: its own, or one made of method and options; also the name of files and folders.
    """

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


def parse_method(text: str) -> MethodSpec:
    """METHOD, METHOD:OPTION=VALUE,..., or NAME=METHOD:...; the method and its options are tried on."""
    match = SHAPE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"--method {text}: write METHOD, METHOD:OPTION=VALUE,... or NAME=METHOD:...")
    method, options = match["method"].strip(), dict[str, Any]()
    make(method)  # an unknown one is refused here, with the nearest name
    for key, value in _pairs(match["options"], method, text):
        if key in options:
            raise InputError(f"--method {text}: {key} is given twice")
        options[key] = parse_option(method, key, value, f"--method {text}: {key}")
    make(method, **options)
    name = (match["name"] or default_name(method, options)).strip()
    return MethodSpec(name, method, options)


def write_method(method: str, options: Mapping[str, Any]) -> str:
    """The text that `parse_method` reads as the same method and options, to the last bit."""
    parts = []
    for key, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            text = "on" if value else "off"
        else:
            text = "/".join(str(one) for one in (value if isinstance(value, (tuple, list)) else (value,)))
        if not text or set(text) & set(",\n") or text != text.strip():
            raise InputError(f"{method}: its option {key} ({text!r}) cannot be written as OPTION=VALUE")
        parts.append(f"{key}={text}")
    return method + (f":{','.join(parts)}" if parts else "")


def _pairs(options: str | None, method: str, text: str) -> list[tuple[str, str]]:
    """The OPTION=VALUE of a text; a number without an option goes on with the one before it."""
    pairs: list[tuple[str, str]] = []
    for part in options.split(",") if options else []:
        key, mark, value = (piece.strip() for piece in part.partition("="))
        if not mark and pairs and pairs[-1][0] == "tau":
            pairs[-1] = ("tau", f"{pairs[-1][1]}/{key}")
        elif not mark or not key or not value:
            raise InputError(
                f"--method {text}: {part!r} is no option; write OPTION=VALUE, e.g. {method}:lam=0.1"
            )
        else:
            pairs.append((key, value))
    return pairs


def parse_option(method: str, key: str, text: str, what: str) -> Any:
    """A value of the kind that an option of a method has; what: how the message names it."""
    names = option_names(METHODS[method])
    if key not in names:
        make(method, **{key: text})  # refuses it, naming those there are
    kinds = [kind for kind in _kinds(get_type_hints(METHODS[method])[key]) if kind is not NoneType]
    if kinds == [bool]:
        if text.lower() not in WORDS:
            raise InputError(f"{what} is {text!r}; write on or off")
        return WORDS[text.lower()]
    if kinds == [str]:
        return text
    if kinds == [int]:
        return _number(int, text, f"{what} is {text!r}; write a whole number")
    if tuple in kinds:
        return parse_tau(text, what)
    return _number(float, text, f"{what} is {text!r}; write a number")


def parse_tau(text: str, what: str = "--tau") -> float | tuple[float, ...]:
    """One factor, "1.5", or three coefficients, "A/B/C" (or with commas)."""
    parts = text.replace(",", "/").split("/")
    way_out = "give one factor (1.5) or three coefficients (A/B/C)"
    if len(parts) not in (1, 3):
        raise InputError(f"{what} {text}: {len(parts)} numbers; {way_out}")
    values = tuple(_number(float, part, f"{what} {text}: {way_out}") for part in parts)
    return values[0] if len(values) == 1 else values


def write_tau(tau: float | tuple[float, ...], digits: int = 6) -> str:
    """The text that `parse_tau` reads."""
    values = tau if isinstance(tau, (tuple, list)) else (tau,)
    return "/".join(f"{value:.{digits}g}" for value in values)


def default_name(method: str, options: dict[str, Any]) -> str:
    """mast, mast-lam0.1, mast-no-sts-no-ddi."""
    parts = [method]
    for key, value in options.items():
        if isinstance(value, bool):
            parts.append(key if value else f"no-{key}")
        else:
            values = value if isinstance(value, tuple) else (value,)
            parts.append(key + "_".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in values))
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", "-".join(parts))


def _kinds(hint: Any) -> list[Any]:
    """The types of a union; of tuple[...] just tuple."""
    parts = get_args(hint) if _is_union(hint) else (hint,)
    return [getattr(part, "__origin__", part) for part in parts]


def _is_union(hint: Any) -> bool:
    return type(hint).__name__ in ("UnionType", "_UnionGenericAlias", "Union")


def _number(kind: Callable[[str], Any], text: str, message: str) -> Any:
    try:
        return kind(text.strip())
    except (ValueError, OverflowError) as error:
        raise InputError(message) from error
