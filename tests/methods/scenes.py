"""A run's scene, for tests that look at one part of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mast import Backbone, Job, Region
from mast.methods import DiffusionMethod, Scene
from tests.tiny import picture, run

SEEN = frozenset({"query", "key", "value"})


@dataclass(frozen=True)
class Grab(DiffusionMethod):
    """Keeps the scene it is given and paints nothing."""

    name = "grab"
    content_features = SEEN
    style_features = SEEN
    caught: ClassVar[list[Scene]] = []

    def sample(self, scene, on_step=None):
        self.caught.append(scene)
        clean = scene.content.trajectory.latents[:1]
        on_step(1, clean, clean)
        return clean


def scene_of(job: Job, backbone: Backbone, **options: Any) -> Scene:
    """What a method would see of this job; queries, keys and values of all pictures are there."""
    run(job, backbone, Grab(), **options)
    return Grab.caught.pop()


def whole(seed: int = 2, width: int = 64, height: int = 64, **region: Any) -> Job:
    """One style for a whole photo."""
    return Job(picture(64, 64, 1), (Region(picture(width, height, seed), **region),))
