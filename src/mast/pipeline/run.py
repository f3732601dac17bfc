"""What an engine is told of one run, and what both engines are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image

from ..features.cache import Cache
from ..job import OnStep, Settings
from ..methods import Method
from .inputs import JobInputs
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
        """Ends a stage; parts that count as stages of their own are taken out. What comes again adds up."""
        now = time.perf_counter()
        for name, part in {**within, stage: now - self.last - sum(within.values())}.items():
            self.seconds[name] = round(self.seconds.get(name, 0.0) + part, 3)
        self.last = now


@dataclass
class Run:
    """How to run, who is told, where inversions are kept, and what there is to say in the end.

    level: of `levels`, counted from 0, that is being painted; see levels.py.
    """

    settings: Settings
    on_step: OnStep | None = None
    on_step_end: StepEnd | None = None
    cache: Cache | None = None
    stages: Stages = field(default_factory=Stages)
    notes: list[str] = field(default_factory=list)
    level: int = 0
    levels: int = 1


WORKING_SIZE = 512  # pixels of the longer side where nothing else is asked for


def settled_size(settings: Settings, inputs: JobInputs, native: int = WORKING_SIZE) -> int:
    """Pixels of the longer side: what is asked for, or the usual size but no larger than what is taken of the
    photo.
    """
    if isinstance(settings.size, int):
        return settings.size
    taken = min(inputs.photo.size) if settings.fit == "square" else max(inputs.photo.size)
    return max(64, min(max(native, WORKING_SIZE), taken))


def size_notes(ready: Prepared) -> list[str]:
    """Says when a photo is painted much larger or smaller than it is."""
    size, longer = ready.settings.size, max(ready.inputs.photo.size)
    assert isinstance(size, int)
    if longer < 0.75 * size:
        return [f"the photo is {longer} px on its longer side and was enlarged to {size} px to be painted"]
    if longer > 1.5 * size:
        return [
            f"painted at {size} px and enlarged to the photo's {longer} px: fine detail is lost; "
            f"--size {min(8192, 2 * size)} keeps more"
        ]
    return []


class Engine(Protocol):
    """One of the two ways to paint: a method with the model, or the networks, that it needs, loaded."""

    @property
    def method(self) -> Method:
        """The method, with the options that the model fills in."""
        ...

    @property
    def stride(self) -> int:
        """Picture sides are made multiples of this."""
        ...

    def settled(self, settings: Settings, inputs: JobInputs) -> Settings:
        """The settings with nothing left to be decided: a record of them makes the same picture."""
        ...

    def check(self, ready: Prepared) -> None:
        """Refuses what would fail later."""
        ...

    def notes(self, ready: Prepared) -> list[str]:
        """What the user should know before looking at the picture."""
        ...

    def record(self) -> dict[str, Any]:
        """What a record says of the model behind a picture."""
        ...

    def paint(self, ready: Prepared, run: Run) -> list[Image.Image]:
        """Pictures of the photo's size: one, or one per region for a method that knows one style."""
        ...
