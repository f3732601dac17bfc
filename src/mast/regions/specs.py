"""Regions written as text: MASK=STYLE, with an optional @STRENGTH; rest=STYLE takes what is left over."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..images import colour_of
from ..job import InputError, Region
from .labels import colour_shares
from .parts import split_part

EXAMPLE = "write MASK=STYLE, MASK=STYLE@0.7, or rest=STYLE for what is left over"
REST = "rest"  # the mask that is whatever the others leave over; a file of this name is ./rest
LISTED = 8  # colours of a map that are named one by one
ESCAPED = re.compile(r"\\([=@])")
HIDDEN = {"=": "\0e", "@": "\0a"}  # while a text is taken apart; no file name holds a NUL


def parse_region(text: str) -> Region:
    """MASK=STYLE[@STRENGTH]; rest=STYLE, =STYLE or STYLE alone for what is left over.

    A name may hold = and @ itself: of several ways to read a text, one whose files exist is meant, and
    \\= and \\@ are always part of a name.
    """
    hidden = _hide(text)
    pieces = hidden.split("=")
    splits = [("=".join(pieces[:i]), "=".join(pieces[i:])) for i in range(1, len(pieces))]
    readings = [*splits, ("", hidden)]
    mask, style = next((one for one in readings if _there(*one)), readings[0])
    if not style:
        raise InputError(f"-r {text}: this is not a region; {EXAMPLE}")
    painting, strength = _strength(style, f"-r {text}")
    return Region(painting, None if mask in ("", REST) else _name(mask), strength)


def _there(mask: str, style: str) -> bool:
    """Whether the files of a reading exist."""
    at = style.rpartition("@")[0]
    painting = any(name and Path(_name(name)).is_file() for name in (style, at))
    return painting and (mask in ("", REST) or split_part(_name(mask))[0].is_file())


def _hide(text: str) -> str:
    """A text whose escaped letters are no longer in the way."""
    return ESCAPED.sub(lambda match: HIDDEN[match[1]], text)


def _name(text: str) -> str:
    """The name that stands in such a text."""
    for letter, code in HIDDEN.items():
        text = text.replace(code, letter)
    return text


def parse_map(path: Path, texts: list[str], rest: bool = False) -> tuple[list[Region], list[str]]:
    """The regions of a colour-coded map, from '#RRGGBB=STYLE[@STRENGTH]'; and notes on colours nobody
    claimed. rest: some other region takes what is left over.
    """
    regions, wanted = [], []
    for text in texts:
        colour, equals, style = _hide(text).partition("=")
        if not equals or not style:
            raise InputError(f"-s {text}: write '#RRGGBB=STYLE', for example '#ff0000=waves.png'")
        style, strength = _strength(style, f"-s {text}")
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
            found = ", ".join(f"{name} ({part:.1%})" for name, part in others[:6])
            raise InputError(
                f"{path}: no pixel has the colour #{rgb[0]:02x}{rgb[1]:02x}{rgb[2]:02x}; "
                + (f"colours there without a style: {found}" if found else "drop it, every pixel has a style")
            )
    fate = "goes to what is left over" if rest else "stays as it is"
    notes = [f"{path}: {name} ({part:.1%}) has no style and {fate}" for name, part in others[:LISTED]]
    if others[LISTED:]:
        more = sum(part for _, part in others[LISTED:])
        notes.append(f"{path}: {len(others) - LISTED} more colours ({more:.1%}) have no style")
    return regions, notes


def with_style_masks(regions: list[Region], texts: list[str]) -> list[Region]:
    """N=FILE gives region N (counted from 1) a mask on its painting."""
    result = list(regions)
    for text in texts:
        number, equals, path = text.partition("=")
        if not equals or not number.isdecimal() or not 1 <= int(number) <= len(regions) or not path:
            numbers = f"N from 1 to {len(regions)}" if len(regions) > 1 else "1 for N"
            raise InputError(f"--style-mask {text}: write N=FILE with {numbers}, the region's number")
        result[int(number) - 1] = replace(result[int(number) - 1], style_mask=path)
    return result


def _strength(style: str, text: str) -> tuple[str, float]:
    path, at, number = style.rpartition("@")
    if not at or Path(_name(style)).exists():
        return _name(style), 1.0
    try:
        strength = float(number)
    except ValueError as error:
        raise InputError(
            f"{text}: there is no file {_name(style)}, and {_name(number)!r} after @ is not a number; "
            "write the strength as in STYLE@0.7"
        ) from error
    if not 0 < strength <= 1:
        raise InputError(f"{text}: the strength is {number}; it must be above 0 and at most 1")
    return _name(path), strength
