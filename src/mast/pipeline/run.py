"""What an engine is told of one run, and what both engines are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image

from ..features.cache import Cache
from ..job import OnStep, Settings
from .prepare import Prepared

StepEnd = Callable[[Any, int, int, dict[str, Any]], "dict[str, Any] | None"]
"""diffusers' callback: (backbone, step, timestep, {"latents": z}); what it returns under "latents" goes on.
"""


class Stages:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def done(self, stage: str, **within: float) -> None:
        """Ends a stage; parts of it that count as stages of their own are taken out."""
        now = time.perf_counter()
        self.seconds |= {name: round(part, 3) for name, part in within.items()}
        self.seconds[stage] = round(now - self.last - sum(within.values()), 3)
        self.last = now


@dataclass
class Run:
    """How to run, who is told, where inversions are kept, and what there is to say in the end."""

    settings: Settings
    on_step: OnStep | None = None
    on_step_end: StepEnd | None = None
    cache: Cache | None = None
    stages: Stages = field(default_factory=Stages)
    notes: list[str] = field(default_factory=list)


class Engine(Protocol):
    """One of the two ways to paint: a method with the model, or the networks, that it needs, loaded."""

    @property
    def stride(self) -> int:
        """Picture sides are made multiples of this."""
        ...

    def check(self, ready: Prepared) -> None:
        """Refuses what would fail later."""
        ...

    def record(self) -> dict[str, Any]:
        """What a record says of the model behind a picture."""
        ...

    def paint(self, ready: Prepared, run: Run) -> list[Image.Image]:
        """Pictures of the photo's size: one, or one per region for a method that knows one style."""
        ...
