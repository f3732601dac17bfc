"""A variant: a method with options, under a name that is also the name of its folder.

    mast                       the method as the model likes it
    mast:lam=0.1,ddi=off       options, named mast-lam0.1-no-ddi
    soft=mast:tau=1.25         the same with a name of one's own
    mast:tau=.11/.65/1         three coefficients, which commas would tear apart

A method that knows one style only makes a picture per region, and the compositor that joins them belongs to
its variant: `styleid-laplacian`. Variants that differ in nothing else are one group, and one run serves all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any

from ..job import InputError, Settings
from ..methods import METHODS, make
from ..methods.compositing import STRATEGIES

SHAPE = re.compile(r"(?:(?P<name>[^=:]+)=)?(?P<method>[^=:]+)(?::(?P<options>.+))?")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
ABLATION = {
    "base": "shared",
    "+ LAMA": "mast:sts=off,ddi=off",
    "+ LAMA + STS": "mast:ddi=off",
    "+ LAMA + STS + DDI": "mast",
}
"""The rows of the paper's ablation (Table 3), as variants."""


@dataclass(frozen=True)
class Variant:
    """composite: how the pictures of a single-style method are joined; None where there is nothing to join.

    options: only those that differ from what the model's defaults give.
    """

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    composite: str | None = None

    def settings(self, shared: Settings) -> Settings:
        return shared if self.composite is None else shared.with_(composite=self.composite)


def parse_variant(text: str) -> Variant:
    """METHOD, METHOD:OPTION=VALUE,..., or NAME=METHOD:...; the method and its options are tried on."""
    match = SHAPE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"--method {text}: write METHOD, METHOD:OPTION=VALUE,... or NAME=METHOD:...")
    method, options = match["method"].strip(), {}
    make(method)  # an unknown one is refused here, with the nearest name
    known = {f.name: f for f in fields(METHODS[method])}  # type: ignore[arg-type]
    for part in (match["options"] or "").split(",") if match["options"] else []:
        key, mark, value = (piece.strip() for piece in part.partition("="))
        if not mark or not key or not value:
            raise InputError(
                f"--method {text}: {part!r} is no option; write OPTION=VALUE, e.g. {method}:lam=0.1"
            )
        if key in options:
            raise InputError(f"--method {text}: {key} is given twice")
        options[key] = _value(value, known.get(key), f"--method {text}: {key}")
    return variant(method, options, match["name"])


def variant(method: str, options: dict[str, Any], name: str | None = None) -> Variant:
    """A variant whose options have been tried on; named after what differs unless it has a name."""
    make(method, **options)
    name = (name or default_name(method, options)).strip()
    if not FOLDER.fullmatch(name):
        raise InputError(f"variant {name!r}: the name is also its folder's; use letters, digits, and . _ + -")
    return Variant(name, method, options)


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


def _value(text: str, option: Field[Any] | None, what: str) -> Any:
    """A value of the kind that the option's default is; `option` is None for one that `make` will refuse."""
    default = None if option is None or option.default is MISSING else option.default
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() not in WORDS:
            raise InputError(f"{what} is {text!r}; write on or off")
        return WORDS[text.lower()]
    try:
        if isinstance(default, int):
            return int(text)
        numbers = tuple(float(part) for part in text.split("/"))
        return numbers[0] if len(numbers) == 1 else numbers
    except ValueError as error:
        if default is None:
            return WORDS.get(text.lower(), text)
        raise InputError(f"{what} is {text!r}; write a number") from error


# ------------------------------------------------------------------------------------------------ sets


def single_style(method: str) -> bool:
    """Whether a method makes one picture per region, which a compositor then joins."""
    return METHODS[method].family != "regional-multi"


def with_composites(variants: Iterable[Variant], composite: str | None) -> list[Variant]:
    """Every single-style variant once per compositor asked for ("all", one, or None for the default)."""
    if composite not in (None, "all", *STRATEGIES):
        raise InputError(f"no compositor is called {composite!r}; choose all, {', '.join(STRATEGIES)}")
    strategies = STRATEGIES if composite == "all" else (composite or Settings().composite,)
    found: list[Variant] = []
    for one in variants:
        if not single_style(one.method) or one.composite is not None:
            found.append(one)
            continue
        if "poisson" in strategies and find_spec("cv2") is None:
            raise InputError(
                f"{one.name}: Poisson compositing needs OpenCV; pip install 'mast[composite]', or choose one "
                "of the others with --composite"
            )
        found += [replace(one, name=f"{one.name}-{strategy}", composite=strategy) for strategy in strategies]
    return distinct(found)


def distinct(variants: Iterable[Variant]) -> list[Variant]:
    """In order, each once; two different ones under one name are refused."""
    found: dict[str, Variant] = {}
    for one in variants:
        other = found.setdefault(one.name.casefold(), one)
        if replace(other, name="") != replace(one, name=""):
            raise InputError(f"two variants are called {one.name!r}; name one of them: NAME={one.method}:...")
    return list(found.values())


def groups(variants: Sequence[Variant]) -> list[tuple[Variant, ...]]:
    """Variants that differ in the compositor only, together: one run serves them all."""
    found: list[list[Variant]] = []
    for one in variants:
        for group in found:
            if one.composite is not None and (group[0].method, group[0].options) == (one.method, one.options):
                group.append(one)
                break
        else:
            found.append([one])
    return [tuple(group) for group in found]


def ablation() -> list[Variant]:
    """The four rows of the paper's ablation, in its order."""
    return [parse_variant(text) for text in ABLATION.values()]
