"""The process that holds the model and paints one job after the other.

It is told what to paint and when to stop over its pipe, looks for word at every step, and ends when the pipe
does. Whatever goes wrong with one job is a sentence about that job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..job import Cancelled, InputError, NotFinite, Progress

if TYPE_CHECKING:
    from ..backbone.backbone import Backbone

AGAIN = 0.7  # seconds between two previews, at least
SHARE = 4.0  # of the time, at most one part in so many goes into previews


def work(pipe: Connection, model: str, device: str) -> None:
    """The worker's life. Messages out begin with their kind; those about a job go on with its id."""
    try:
        from ..backbone.load import load

        backbone = load(model, device)
        backbone.name = model = known_as(model)
    except InputError as error:
        pipe.send(("failed", str(error)))
        return
    pipe.send(("ready", str(backbone.device), backbone.defaults))
    while True:
        kind, *rest = pipe.recv()
        if kind == "paint":
            pipe.send(Painting(pipe, backbone, model, *rest).done())


def known_as(model: str) -> str:
    """The name of a model in records that people take along: of a file or a folder its own, not the way to
    it. `mast replay` looks for it beside the picture.
    """
    return Path(model).name if os.path.exists(model) else model


class Painting:
    """One job under way."""

    def __init__(
        self,
        pipe: Connection,
        backbone: Backbone,
        model: str,
        id: str,
        folder: str,
        request: Mapping[str, Any],
    ):
        self.pipe, self.backbone, self.model = pipe, backbone, model
        self.id, self.folder, self.request = id, Path(folder), dict(request)
        self.pace = Pace()
        self.previews, self.shown, self.cost = 0, 0.0, 0.0

    def done(self) -> tuple[Any, ...]:
        """Paints; the message that ends the job."""
        try:
            return ("done", self.id, self.paint())
        except Cancelled:
            return ("cancelled", self.id)
        except (InputError, NotFinite) as error:
            return ("refused", self.id, self._plain(str(error)))
        except MemoryError:
            return ("refused", self.id, "there is not enough memory for this; choose a smaller size")
        except Exception as error:
            short = "out of memory" in str(error).lower()
            way = "there is not enough memory for this; choose a smaller size"
            return ("refused", self.id, way if short else self._plain(f"{type(error).__name__}: {error}"))

    def _plain(self, sentence: str) -> str:
        """Without the names of folders, which are nobody's business and nobody's help."""
        return sentence.replace(f"{self.folder}/", "").replace(str(self.folder), "the job")

    def paint(self) -> dict[str, Any]:
        from ..pipeline import default_method, default_settings, read_job, stylize
        from .catalogue import method_of, settings_of
        from .result import PICTURE, job_of, watched, write_extras

        spec, options = method_of(self.request)
        preset, changes = settings_of(self.request)
        method = default_method(self.backbone, spec.method, **options)
        settings = default_settings(self.backbone, preset, **changes)
        self.pace.steps = settings.steps
        seen, onlooker = watched(method)
        inputs = read_job(job_of(self.request, self.folder), method)
        self.look_for_word()
        result = stylize(inputs, self.backbone, seen, settings, self.on_step)
        result.save(self.folder / PICTURE, overwrite=True)
        given = {**({} if preset is None else {"preset": preset}), **changes}
        return write_extras(
            result, onlooker, self.request, (spec.method, options), given, self.model, self.folder
        )

    def on_step(self, step: Progress) -> None:
        self.look_for_word()
        left = self.pace.left(step)
        facts = {name: getattr(step, name) for name in ("stage", "done", "total", "level", "levels")}
        self.pipe.send(("progress", self.id, {**facts, "seconds_left": left}))
        began = time.perf_counter()
        if step.x0 is not None and began - self.shown >= max(AGAIN, SHARE * self.cost):
            self.show(step)
            self.shown = time.perf_counter()
            self.cost = self.shown - began

    def show(self, step: Progress) -> None:
        """The current estimate as a picture in the job's folder."""
        from PIL import Image

        from .result import PREVIEW, PREVIEW_SIDE, save_small

        assert step.x0 is not None
        save_small(Image.fromarray(step.x0()), self.folder / PREVIEW, PREVIEW_SIDE)
        self.previews += 1
        self.pipe.send(("preview", self.id, self.previews))

    def look_for_word(self) -> None:
        """Stops where that was asked for. A pipe that has ended ends the process."""
        while self.pipe.poll():
            kind, *rest = self.pipe.recv()
            if kind == "cancel" and rest == [self.id]:
                raise Cancelled


class Pace:
    """How long a job still takes: from the seconds its steps took, with a guess for stages yet to come."""

    AFTER = 1.5  # a denoising step takes about so many times as long as an inversion's pass

    def __init__(self) -> None:
        self.steps = 0
        self.stage: tuple[str, int] | None = None
        self.began, self.first = 0.0, 0

    def left(self, step: Progress) -> float | None:
        now, stage = time.perf_counter(), (step.stage, step.level)
        if stage != self.stage:
            self.stage, self.began, self.first = stage, now, step.done
            return None
        each = (now - self.began) / max(1, step.done - self.first)
        seconds = each * (step.total - step.done)
        if step.stage == "invert":
            seconds += each * self.AFTER * self.steps
        return round(seconds, 1)
