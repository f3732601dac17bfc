"""One queue for everybody: a thread that gives the oldest waiting job to the worker and writes down what
comes of it. What waits and what runs stands in the store, so the queue outlives the server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from .children import Child
from .store import ACTIVE, StoredJob, StudioStore
from .worker import work

log = logging.getLogger(__name__)

STARTS = 3  # times in a row that a worker may die before it is ready


@dataclass
class ModelState:
    """The model as far as it is known here. defaults: its own settings and options."""

    name: str
    state: str = "loading"
    message: str = "the model is being loaded"
    defaults: dict[str, Any] = field(default_factory=dict)


class JobQueue:
    """told: called after every change of a job, with its row, the kind of news, and what it holds. Any thread
    may call `wake` and `stop_job`.
    """

    def __init__(self, store: StudioStore, model: str, device: str, told: Callable[[StoredJob, str], None]):
        self.store, self.device, self.told = store, device, told
        self.model = ModelState(model)
        self.running: StoredJob | None = None
        self.progress: dict[str, Any] | None = None
        self.previews = 0
        self.child: Child | None = None
        self.settled = threading.Event()  # the model is there, or will never be
        self._cancelled: set[str] = set()
        self._deaths = 0
        self._stopping = False
        self._bell, self._ring = Pipe(duplex=False)
        self._ringing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="queue", daemon=True)

    def start(self) -> None:
        for job in self.store.take_up():
            self._tell(job.workspace, job.id, "state")
        self._thread.start()

    def stop(self) -> None:
        """What runs is begun again at the next start."""
        self._stopping = True
        self.wake()
        self._thread.join(30)
        if self.child is not None:
            self.child.end()
            self.child = None

    def wake(self) -> None:
        """There is something to do."""
        with self._ringing:
            self._ring.send_bytes(b"!")

    def cancel(self, job: StoredJob) -> None:
        """Now, where it waits; at the next step, where it runs."""
        if self.store.cancel_waiting(job.id):
            self._tell(job.workspace, job.id, "state")
            return
        if job.state not in ACTIVE:
            return
        self._cancelled.add(job.id)  # it may be on its way to the worker
        running, child = self.running, self.child
        if running is not None and running.id == job.id and child is not None:
            child.send("cancel", job.id)

    # -------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception as error:  # a full disk, say: the job is lost, the queue is not
                log.exception("the queue stumbled")
                if self.running is not None:
                    with suppress(Exception):
                        self._ended("failed", f"it could not be written down ({error}); free some space")
                    self.running = None
                time.sleep(1)

    def _turn(self) -> None:
        """One thing that happens, once it does."""
        if self.child is None and self.model.state != "failed":
            self.child = Child(work, self.model.name, self.device)
        if self.running is None and self.model.state == "ready":
            self._begin()
        sources: list[Any] = [self._bell] if self.child is None else [self._bell, self.child.pipe]
        ready = wait(sources)
        if self._bell in ready:
            while self._bell.poll():
                self._bell.recv_bytes()
        if self.child is not None and self.child.pipe in ready:
            try:
                message = self.child.pipe.recv()
            except (EOFError, OSError):
                self._died()
            else:
                self._heard(*message)

    def _begin(self) -> None:
        job = self.store.begin_next()
        if job is None or self.child is None:
            return
        self.running, self.progress, self.previews = job, None, 0
        folder = self.store.job_folder(job.workspace, job.id)
        self.child.send("paint", job.id, str(folder), job.request)
        if job.id in self._cancelled:
            self.child.send("cancel", job.id)
        self.told(job, "state")

    def _heard(self, kind: str, *rest: Any) -> None:
        if kind == "ready":
            place, self.model.defaults = rest
            self.model.state, self.model.message, self._deaths = "ready", f"ready, on {place}", 0
            self.settled.set()
        elif kind == "failed":
            self.model.state, self.model.message = "failed", rest[0]
            self.settled.set()
        elif self.running is None or rest[0] != self.running.id:
            return
        elif kind == "progress":
            self.progress = rest[1]
            self.told(self.running, "progress")
        elif kind == "preview":
            self.previews = rest[1]
            self.told(self.running, "preview")
        elif kind == "done":
            self._ended("done", None, rest[1])
        elif kind == "cancelled":
            self._ended("cancelled")
        elif kind == "refused":
            self._ended("failed", rest[1])

    def _ended(self, state: str, error: str | None = None, outcome: dict[str, Any] | None = None) -> None:
        job = self.running
        assert job is not None
        self.store.finish(job.id, state, error, outcome)
        self.running = self.progress = None
        self._cancelled.discard(job.id)
        self._tell(job.workspace, job.id, "state")

    def _died(self) -> None:
        """The worker is gone: its job has failed, and the next worker is started."""
        assert self.child is not None
        cause = self.child.cause()
        self.child.end()
        self.child = None
        if self._stopping or self.model.state == "failed":
            return
        if self.running is not None:
            self._ended(
                "failed", f"the process that paints came to its end ({cause}); try a smaller size, or again"
            )
        if self.model.state == "loading":
            self._deaths += 1
        self.model.state, self.model.message = "loading", "the model is being loaded again"
        if self._deaths >= STARTS:
            self.model.state = "failed"
            self.model.message = (
                f"the process that paints cannot be started ({cause}); start the studio again"
            )

    def _tell(self, workspace: str, id: str, kind: str) -> None:
        job = self.store.job(workspace, id)
        if job is not None:
            self.told(job, kind)
