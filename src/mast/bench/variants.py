"""A variant: a method with options (methods/spec.py), under a name that is also the name of its folder.

A method that knows one style only makes a picture per region, and the compositor that joins them belongs to
its variant: `styleid-laplacian`. Variants that differ in nothing else are one group, and one run serves all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from ..job import InputError, Settings
from ..methods import METHODS, make, option_names, paints_one_style
from ..methods.compositing import STRATEGIES
from ..methods.spec import MethodSpec, default_name, parse_method

FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
ABLATION = {
    "base": "shared",
    "+ LAMA": "mast:sts=off,ddi=off",
    "+ LAMA + STS": "mast:ddi=off",
    "+ LAMA + STS + DDI": "mast",
}
"""The rows of the paper's ablation (Table 3), as variants."""


@dataclass(frozen=True)
class Variant(MethodSpec):
    """composite: how the pictures of a single-style method are joined; None where nothing is."""

    composite: str | None = None

    def settings(self, shared: Settings) -> Settings:
        return shared if self.composite is None else shared.with_(composite=self.composite)


def parse_variant(text: str) -> Variant:
    """A variant from the text of a method."""
    spec = parse_method(text)
    return variant(spec.method, spec.options, spec.name)


def variant(method: str, options: dict[str, Any], name: str | None = None) -> Variant:
    """A variant whose options have been tried on; named after what differs unless it has a name."""
    make(method, **options)
    name = (name or default_name(method, options)).strip()
    if not FOLDER.fullmatch(name):
        raise InputError(f"variant {name!r}: the name is also its folder's; use letters, digits, and . _ + -")
    return Variant(name, method, options)


def as_released(one: Variant) -> Variant:
    """The variant with its method as the authors' code runs it, where that has a switch and the variant does
    not set it. Its name stays.
    """
    if "released" not in option_names(METHODS[one.method]) or "released" in one.options:
        return one
    return replace(one, options={**one.options, "released": True})


# ------------------------------------------------------------------------------------------------ sets


def with_composites(variants: Iterable[Variant], composite: str | None) -> list[Variant]:
    """Every single-style variant once per compositor asked for ("all", one, or None for the default)."""
    if composite not in (None, "all", *STRATEGIES):
        raise InputError(f"no compositor is called {composite!r}; choose all, {', '.join(STRATEGIES)}")
    strategies = STRATEGIES if composite == "all" else (composite or Settings().composite,)
    found: list[Variant] = []
    for one in variants:
        if not paints_one_style(METHODS[one.method]) or one.composite is not None:
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
