"""Workers as actors of a Ray cluster, one per device, each with its model loaded (extra `cluster`).

An actor writes its pictures to the output folder and takes its claims there itself, so that folder, the
manifest and its pictures, and the model (when it is a path) must be the same on every machine. What travels
through Ray is a few hundred bytes a picture. An actor that dies is replaced; see dispatch.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...job import InputError
from .dispatch import Died, Ready, Reply
from .worker import BenchPlan, DiskFull, Unit, Worker

OBJECT_STORE = 100 << 20  # bytes; Ray's smallest store is still far more than outcomes need


class RayCrew:
    """A crew of actors; see dispatch.Crew.

    size: how many; None takes one per GPU, or one per machine where there is none.
    address: of a cluster; None joins the one that RAY_ADDRESS names, or starts Ray here for this run.
    """

    def __init__(self, plan: BenchPlan, size: int | None = None, address: str | None = None):
        self.ray = _ray()
        self.ours = not self.ray.is_initialized()
        if self.ours:
            self._join(address)
        gpus = int(self.ray.cluster_resources().get("GPU", 0)) if plan.device in ("auto", "cuda") else 0
        machines = [node["Resources"].get("CPU", 1.0) for node in self.ray.nodes() if node["Alive"]]
        self.size = size or gpus or len(machines)
        if self.size < 1:
            raise InputError(f"--workers {size}: at least one must work")
        # The same number everywhere, or bits would depend on who makes a picture.
        share = int(sum(machines)) // self.size
        threads = plan.threads or max(1, min(share, int(min(machines))))
        self.plan = replace(plan, threads=threads)
        self.need = {"num_cpus": threads, "num_gpus": 1 if gpus else 0}
        self.kind = self.ray.remote(_Actor)
        self.actors: dict[int, Any] = {}
        self.awaited: dict[Any, int] = {}  # index by the reference of its reply

    def _join(self, address: str | None) -> None:
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
        local = address is None and "RAY_ADDRESS" not in os.environ
        try:
            if local:
                self.ray.init(object_store_memory=OBJECT_STORE, **quiet)
            else:
                self.ray.init(address=address, **{k: v for k, v in quiet.items() if k != "include_dashboard"})
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = address or os.environ.get("RAY_ADDRESS", "this machine")
            raise InputError(
                f"Ray at {where} cannot be reached ({error}); start it with: ray start"
            ) from error

    def start(self, index: int) -> None:
        self._end(index)
        self.actors[index] = self.kind.options(**self.need).remote(self.plan)
        self.awaited[self.actors[index].load.remote()] = index

    def give(self, index: int, unit: Unit) -> None:
        self.awaited[self.actors[index].do.remote(unit)] = index

    def wait(self) -> tuple[int, Reply]:
        (reference,), _ = self.ray.wait(list(self.awaited), num_returns=1)
        index = self.awaited.pop(reference)
        try:
            return index, self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError as error:  # its process, its machine, or the way there is gone
            return index, Died((str(error).strip().splitlines() or [type(error).__name__])[0])

    def close(self) -> None:
        for index in list(self.actors):
            self._end(index)
        if self.ours:
            self.ray.shutdown()

    def _end(self, index: int) -> None:
        actor = self.actors.pop(index, None)
        if actor is not None:
            with suppress(Exception):  # it may be dead, which is what is wanted
                self.ray.kill(actor)
        self.awaited = {reference: i for reference, i in self.awaited.items() if i != index}


class _Actor:
    """A worker as an actor: errors that are answers are returned, not raised, and so keep their kind."""

    def __init__(self, plan: BenchPlan):
        self.plan = plan
        self.worker: Worker | None = None

    def load(self) -> Reply:
        try:
            self.worker = Worker(self.plan)
            return Ready(self.worker.facts(), os.getpid())
        except InputError as error:
            return error

    def do(self, unit: Unit) -> Reply:
        assert self.worker is not None
        try:
            return self.worker.do(unit)
        except (DiskFull, InputError) as error:
            return error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("--on ray needs Ray; install it with: pip install 'mast[cluster]'") from error
    return ray
