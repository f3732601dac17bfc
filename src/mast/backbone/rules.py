"""What a key of a config may be, written down as a rule, and configs checked against their rules."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..job import InputError


class Config(dict[str, Any]):
    """Settings by key or by attribute, as diffusers' configs have them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True)
class Rule:
    """What a key may be, what it is when it is not there, and how an error says it."""

    default: Any
    fits: Callable[[Any], bool]
    words: str


def whole(default: Any, low: int, high: int) -> Rule:
    fits = lambda value: type(value) is int and low <= value <= high
    return Rule(default, fits, f"a whole number from {low} to {high}")


def number(default: Any, low: float, high: float) -> Rule:
    fits = lambda value: type(value) in (int, float) and math.isfinite(value) and low <= value <= high
    return Rule(default, fits, f"a number from {low:g} to {high:g}")


def fixed(*values: Any) -> Rule:
    """One of these values and no other; True is not 1 here, though 1.0 is."""
    plain = (bool, int, float, str, type(None))
    same = lambda a, b: isinstance(a, plain) and isinstance(a, bool) == isinstance(b, bool) and a == b
    fits = lambda value: any(same(value, known) for known in values)
    return Rule(values[0], fits, " or ".join(json.dumps(value) for value in values))


def flag(default: bool) -> Rule:
    return Rule(default, lambda value: isinstance(value, bool), "true or false")


def listed(default: Any, item: Rule, low: int, high: int) -> Rule:
    """A list of `low` to `high` things that fit one rule."""

    def fits(value: Any) -> bool:
        return isinstance(value, list) and low <= len(value) <= high and all(map(item.fits, value))

    count = f"{low}" if low == high else f"{low} to {high}"
    return Rule(default, fits, f"a list of {count} entries, each {item.words}")


def either(first: Rule, *others: Rule) -> Rule:
    rules = (first, *others)
    fits = lambda value: any(rule.fits(value) for rule in rules)
    return Rule(first.default, fits, ", or ".join(rule.words for rule in rules))


def check(path: Path, given: Mapping[str, Any], rules: Mapping[str, Rule]) -> Config:
    """The listed keys, each with its default where it is not given."""
    config = Config()
    for key, rule in rules.items():
        config[key] = value = given.get(key, rule.default)
        if not rule.fits(value):
            raise InputError(f"{path}: {key} is {brief(value)}; it must be {rule.words}")
    return config


def brief(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
