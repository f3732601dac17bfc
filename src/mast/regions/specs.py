"""Regions written as text: MASK=STYLE, with an optional @STRENGTH; an empty MASK takes what is left over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..images import colour_of
from ..job import InputError, Region
from .colours import colour_shares

EXAMPLE = "write MASK=STYLE, MASK=STYLE@0.7, or =STYLE for what is left over"


def parse_region(text: str) -> Region:
    """MASK=STYLE[@STRENGTH]."""
    mask, equals, style = text.partition("=")
    if not equals or not style:
        raise InputError(f"-r {text}: this is not a region; {EXAMPLE}")
    style, strength = _strength(style, text)
    return Region(style=style, mask=mask or None, strength=strength)


def parse_map(path: Path, texts: list[str]) -> tuple[list[Region], list[str]]:
    """The regions of a colour-coded map, from '#RRGGBB=STYLE[@STRENGTH]'; and notes on colours nobody claimed."""
    regions, wanted = [], []
    for text in texts:
        colour, equals, style = text.partition("=")
        if not equals or not style:
            raise InputError(f"-s {text}: write '#RRGGBB=STYLE', for example '#ff0000=waves.png'")
        style, strength = _strength(style, text)
        rgb = colour_of(colour)
        if rgb is None:
            raise InputError(
                f"-s {text}: {colour!r} is not a colour; write it as '#RRGGBB', for example '#ff0000'"
            )
        if rgb in wanted:
            raise InputError(f"-s {text}: the colour {colour} is given twice; each colour has one style")
        wanted.append(rgb)
        regions.append(Region(style=style, mask=f"{path}#{colour.lstrip('#').lower()}", strength=strength))
    shares, others = colour_shares(path, wanted)
    for rgb, share in zip(wanted, shares, strict=True):
        if share == 0:
            found = ", ".join(f"{name} ({part:.1%})" for name, part in others[:6]) or "none"
            raise InputError(
                f"{path}: no pixel has the colour #{rgb[0]:02x}{rgb[1]:02x}{rgb[2]:02x}; other colours there: {found}"
            )
    return regions, [f"{path}: {name} ({part:.1%}) has no style and stays as it is" for name, part in others]


def with_style_masks(regions: list[Region], texts: list[str]) -> list[Region]:
    """N=FILE gives region N (counted from 1) a mask on its painting."""
    result = list(regions)
    for text in texts:
        number, equals, path = text.partition("=")
        if not equals or not number.isdigit() or not 1 <= int(number) <= len(regions) or not path:
            raise InputError(
                f"--style-mask {text}: write N=FILE with N from 1 to {len(regions)}, the region's number"
            )
        result[int(number) - 1] = replace(result[int(number) - 1], style_mask=path)
    return result


def _strength(style: str, text: str) -> tuple[str, float]:
    path, at, number = style.rpartition("@")
    if not at or Path(style).exists():
        return style, 1.0
    try:
        return path, float(number)
    except ValueError as error:
        raise InputError(f"{text}: {number!r} after @ is not a number; {EXAMPLE}") from error
