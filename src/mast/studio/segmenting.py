"""Objects of a photo by clicks, boxes, or all at once, in a process of their own: the server answers
meanwhile, and what goes wrong there stays there. The process is started by the first question.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..job import InputError
from ..weights.registry import local
from .children import Child

NEEDED = ("mobile-sam", "u2netp")
HOW = f"mast weights fetch {' '.join(NEEDED)}"
LONGEST = 300.0  # seconds an answer may take
MOST_WAITING = 8  # questions at a time


def missing() -> str | None:
    """What is not there that finding objects needs, and how to get it; None: all is there."""
    gone = [name for name in NEEDED if local(name) is None]
    if gone:
        return f"the weights {' and '.join(gone)} are not on this machine; get them with: {HOW}"
    absent = [name for name in ("onnxruntime", "scipy") if find_spec(name) is None]
    if absent:
        return f"{' and '.join(absent)} are not installed; pip install 'mast[segment]'"
    return None


class Unavailable(Exception):
    """Nobody can answer now; the sentence says why."""


class SegmentingProcess:
    """Any thread may ask; one question at a time is answered."""

    def __init__(self) -> None:
        self._lock, self._waiting = threading.Lock(), threading.BoundedSemaphore(MOST_WAITING)
        self._child: Child | None = None

    def ask(self, question: str, photo: Path, **how: Any) -> Any:
        """What `answer` below gives; InputError for what cannot be asked."""
        lack = missing()
        if lack is not None:
            raise Unavailable(lack)
        if not self._waiting.acquire(blocking=False):
            raise BlockingIOError
        try:
            with self._lock:
                return self._asked(question, str(photo), how)
        finally:
            self._waiting.release()

    def _asked(self, question: str, photo: str, how: dict[str, Any]) -> Any:
        if self._child is None:
            self._child = Child(answer_all)
        child = self._child
        child.send(question, photo, how)
        try:
            if not child.pipe.poll(LONGEST):
                raise EOFError
            kind, found = child.pipe.recv()
        except (EOFError, OSError) as error:
            self.end()
            raise Unavailable("the process that finds objects came to its end; try again") from error
        if kind == "refused":
            raise InputError(found)
        return found

    def end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


# ------------------------------------------------------------------------------------------- in the child


def answer_all(pipe: Connection) -> None:
    """The process' life: a question, an answer."""
    segmenters: dict[str, Any] = {}
    while True:
        question, photo, how = pipe.recv()
        try:
            pipe.send(("found", answer(segmenters, question, photo, **how)))
        except Exception as error:
            said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            pipe.send(("refused", said.replace(photo, "the photo")))


def answer(segmenters: dict[str, Any], question: str, photo: str, **how: Any) -> Any:
    """select: the mask of one object, uint8 (h, w); divide: names and masks that tile it, and notes."""
    from ..images import read_rgb
    from ..regions.auto import divide
    from ..regions.salient import SalientObject
    from ..regions.sam.model import MobileSam
    from ..regions.segment import Prompt, select

    if not segmenters:
        segmenters |= {"objects": MobileSam(), "salience": SalientObject()}
    picture = read_rgb(photo, "photo")
    if question == "select":
        return _levels(select(segmenters["objects"], picture, Prompt(**how)))
    made = divide(picture, how["n"], segmenters["objects"], segmenters["salience"])
    masks = [_levels(mask) for mask in made.regions.masks]
    return list(made.regions.names), masks, made.notes


def _levels(mask: Any) -> Any:
    return (mask * 255).round().astype("uint8")
