"""The methods by name. To add one: write its file, import it here, add it to METHODS."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from ..job import InputError
from .cocodiff import CoCoDiff
from .feedforward.adaattn import AnyToAny
from .feedforward.adain import AdaIN, GlobalAdaIN
from .feedforward.bpc import BPC
from .feedforward.stylemixer import StyleMixer
from .mast import Mast, SharedAttention
from .method import DiffusionMethod, Method, Reference, Scene, as_released, option_names, paints_one_style
from .reconstruct import Reconstruct
from .stylegallery import StyleGallery
from .styleid import StyleID
from .zstar import ZStar

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Mast,
        SharedAttention,
        StyleID,
        ZStar,
        CoCoDiff,
        StyleGallery,
        AdaIN,
        GlobalAdaIN,
        AnyToAny,
        StyleMixer,
        BPC,
        Reconstruct,
    )
}

__all__ = [
    "BPC",
    "METHODS",
    "AdaIN",
    "AnyToAny",
    "CoCoDiff",
    "DiffusionMethod",
    "GlobalAdaIN",
    "Mast",
    "Method",
    "Reconstruct",
    "Reference",
    "Scene",
    "SharedAttention",
    "StyleGallery",
    "StyleID",
    "StyleMixer",
    "ZStar",
    "as_released",
    "make",
    "option_names",
    "paints_one_style",
]


def make(name: str, /, **options: Any) -> Method:
    """A method by name with some of its options; None leaves an option at its default."""
    if name not in METHODS:
        near = get_close_matches(name, METHODS, 1)
        raise InputError(
            f"no method is called {name!r}{f'; did you mean {near[0]!r}?' if near else ''} (there are "
            f"{', '.join(METHODS)})"
        )
    given = {option: value for option, value in options.items() if value is not None}
    known = option_names(METHODS[name])
    for option in given:
        if option not in known:
            raise InputError(
                f"method {name!r} has no option {option!r}; it has {', '.join(sorted(known)) or 'none'}"
            )
    return METHODS[name](**given)
