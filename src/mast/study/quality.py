"""Who did not take part in earnest, or not to the end: flags by rules that are stated, and who is left out
by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..job import InputError
from .ratings import Ratings

INCOMPLETE, STRAIGHT, FAST = FLAGS = ("incomplete", "straight", "fast")
FEWEST_PICTURES = 4  # before somebody can be called a straight-liner


@dataclass(frozen=True)
class QualityRule:
    """Who is flagged, and which flags leave somebody out.

    straight: the share of pictures with one and the same answer to every question from which somebody is a
    straight-liner. seconds: who spends less on the half of their pictures is too fast.
    """

    drop: tuple[str, ...] = FLAGS
    straight: float = 0.9
    seconds: float = 6.0

    def __post_init__(self) -> None:
        for flag in self.drop:
            if flag not in FLAGS:
                raise InputError(f"--drop {flag}: choose of {', '.join(FLAGS)}, or none")
        if not 0 < self.straight <= 1:
            raise InputError(f"--straight {self.straight}: a share of the pictures, above 0 and at most 1")
        if not self.seconds >= 0:
            raise InputError(f"--too-fast {self.seconds}: seconds a picture, 0 or more")

    def stated(self) -> str:
        """The rule in words, for the report."""
        said = (
            f"Flagged are: incomplete, whoever left a question of a picture open; straight, whoever gave "
            f"one and the "
            f"same answer to all questions of {self.straight:.0%} of their pictures or more (of at least "
            f"{FEWEST_PICTURES}); fast, whoever spent less than {self.seconds:g} s on half of their "
            f"pictures or more."
        )
        left = f"Left out: {', '.join(self.drop)}." if self.drop else "Nobody is left out."
        return f"{said} {left}"


@dataclass(frozen=True)
class Flagged:
    """A participant and their flags; kept: whether they count."""

    participant: str
    flags: tuple[str, ...]
    answers: int
    kept: bool


def parse_drop(text: str) -> tuple[str, ...]:
    """`incomplete,fast`, or `none`."""
    return () if text.strip() in ("", "none") else tuple(part.strip() for part in text.split(","))


def judge(ratings: Ratings, rule: QualityRule) -> list[Flagged]:
    """Everybody's flags. Somebody without any answer is never kept."""
    return [
        _judge(name, values, seconds, rule)
        for name, values, seconds in zip(ratings.people, ratings.values, ratings.seconds, strict=True)
    ]


def _judge(name: str, values: np.ndarray, seconds: np.ndarray, rule: QualityRule) -> Flagged:
    answered = ~np.isnan(values)
    flags = [] if answered.all() else [INCOMPLETE]
    whole = values.reshape(-1, values.shape[-1])[answered.reshape(-1, values.shape[-1]).all(1)]
    if len(whole) >= FEWEST_PICTURES and values.shape[-1] > 1:
        same = (whole == whole[:, :1]).all(1).mean()
        flags += [STRAIGHT] if same >= rule.straight else []
    known = seconds[~np.isnan(seconds)]
    if len(known) and np.median(known) < rule.seconds:
        flags.append(FAST)
    kept = bool(answered.any()) and not set(flags) & set(rule.drop)
    return Flagged(name, tuple(flags), int(answered.sum()), kept)


def kept(ratings: Ratings, flagged: Sequence[Flagged]) -> Ratings:
    return ratings.of([one.kept for one in flagged])
