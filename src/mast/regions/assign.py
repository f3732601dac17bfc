"""Which style goes where: the regions of a photo matched with paintings, exactly, and how sure that is.

A style suits a region that it resembles: a smooth sky survives in broad calm strokes, dark fur in a dark
picture. What resembles what is `likeness.py`'s; here it is decided for all regions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from ..backbone.backbone import Backbone
from ..core.masks import verify
from .likeness import USUAL, Comparison, compare, see
from .matching import match, runner_up, total
from .partition import NamedMasks

CLEAR, TOSS_UP = 1.0, 0.3  # of the margin, in usual differences a region
TELLING = 0.2  # usual differences from which on something is a reason
MOST_REASONS = 2
# What a region and its painting can have more of than the others: words for more and for less of it.
WORDS = {
    "light": ("brighter", "darker"),
    "contrast": ("more contrast", "less contrast"),
    "warmth": ("warmer", "cooler"),
    "chroma": ("more colourful", "greyer"),
    "texture": ("busier", "smoother"),
}


@dataclass(frozen=True)
class Assignment:
    """regions: of the photo; styles: for each region the number of its painting; reasons: for each, in words.

    margin: how much worse the next best way is, in usual differences a region; None: there is no other way.
    other: that way. unused: numbers of the paintings that no region has.
    """

    regions: NamedMasks
    styles: tuple[int, ...]
    reasons: tuple[str, ...]
    margin: float | None
    other: tuple[int, ...] | None
    unused: tuple[int, ...]

    @property
    def verdict(self) -> str:
        """How sure it is, in a word or two."""
        if self.margin is None:
            return "there is only one way"
        return "clear" if self.margin >= CLEAR else "a toss-up" if self.margin < TOSS_UP else "likely"


def assign(
    photo: Image.Image, regions: NamedMasks, styles: Sequence[Image.Image], backbone: Backbone
) -> Assignment:
    """Every region's style. With more styles than regions some are not used, with fewer some are used more
    than once, and every one at least once. The order of the styles does not matter.
    """
    masks = torch.from_numpy(regions.masks)
    verify(masks, regions.names)
    found = compare(see(photo, backbone), masks, [see(style, backbone) for style in styles])
    order = sorted(range(len(styles)), key=lambda j: tuple(found.costs[:, j]))  # whatever order they came in
    costs = found.costs[:, order]
    _, kind = np.unique(costs, axis=1, return_inverse=True)
    chosen = match(costs)
    other = runner_up(costs, chosen, kind.ravel().tolist())
    margin = None if other is None else max(0.0, total(costs, other) - total(costs, chosen)) / len(chosen)
    numbers = tuple(order[place] for place in chosen)
    return Assignment(
        regions,
        numbers,
        tuple(_reason(found, i, j) for i, j in enumerate(numbers)),
        margin,
        None if other is None else tuple(order[place] for place in other),
        tuple(j for j in range(len(styles)) if j not in numbers),
    )


def _reason(found: Comparison, region: int, style: int) -> str:
    """What region and style share: where both differ from the rest of their kind in the same direction."""
    parts, paintings = (np.array([_traits(one) for one in looks]) for looks in (found.parts, found.paintings))
    apart = (parts - parts.mean(0))[region] * (paintings - paintings.mean(0))[style]
    units = np.array([USUAL["colour"] if name in ("warmth", "chroma") else USUAL[name] for name in WORDS])
    ranked = {
        pair[0 if parts[region, k] > parts[:, k].mean() else 1]: 2 * apart[k] / units[k] ** 2
        for k, pair in enumerate(WORDS.values())
    }
    model = found.unlike["model"][region]
    ranked["similar places"] = float(model.mean() - model[style])
    best = sorted((word for word in ranked if ranked[word] > 0), key=lambda word: -ranked[word])
    told = [word for word in best if ranked[word] >= TELLING][:MOST_REASONS] or best[:1]
    return ", ".join(told) or "the others are needed elsewhere"


def _traits(look: dict[str, torch.Tensor]) -> list[float]:
    """One number for each of WORDS."""
    blue, red, chroma = look["colour"].tolist()
    texture = float(look["texture"].sum()) / len(look["texture"]) ** 0.5
    return [float(look["light"]), float(look["contrast"]), (red - blue) / 2**0.5, chroma, texture]
