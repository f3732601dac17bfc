"""Workers as processes of this machine, each with its own model and its share of the cores.

Every worker has a pipe of its own: one that is killed in the middle of a word can spoil no other's. Workers
end with the run, even when the run is killed: they look now and then whether it is still there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from ...job import InputError, Progress
from .dispatch import Died, Ready, Reply
from .worker import BenchPlan, DiskFull, Unit, Worker

PATIENCE = 10.0  # seconds a worker has to put its things away before it is killed


class Pool:
    """A crew of processes; see dispatch.Crew."""

    def __init__(self, plan: BenchPlan, size: int):
        if size < 1:
            raise InputError(f"--workers {size}: at least one must work")
        self.plan, self.size = share_of_cores(plan, size), size
        self.context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half-dead
        self.processes: dict[int, Any] = {}
        self.pipes: dict[int, Connection] = {}

    def start(self, index: int) -> None:
        self._forget(index)
        ours, theirs = self.context.Pipe()
        process = self.context.Process(
            target=_work, args=(theirs, self.plan, index, os.getpid()), daemon=True
        )
        with _deaf_to_ctrl_c():
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.processes[index], self.pipes[index] = process, ours

    def give(self, index: int, unit: Unit) -> None:
        with suppress(BrokenPipeError):  # `wait` will see that it has died
            self.pipes[index].send(unit)

    def wait(self) -> tuple[int, Reply]:
        by_pipe = {pipe: index for index, pipe in self.pipes.items()}
        pipe = wait(list(by_pipe))[0]
        index = by_pipe[pipe]  # type: ignore[index]
        try:
            return index, self.pipes[index].recv()
        except (EOFError, OSError):
            process = self.processes[index]
            process.join(PATIENCE)
            code = process.exitcode
            self._forget(index)
            return index, Died(f"signal {-code}" if code is not None and code < 0 else f"exit code {code}")

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for index in list(self.processes):
            self.processes[index].join(PATIENCE)
            self._forget(index)

    def _forget(self, index: int) -> None:
        pipe, process = self.pipes.pop(index, None), self.processes.pop(index, None)
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join()
            process.close()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A process started inside ignores Ctrl-C, which a terminal sends to all; the run says when to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(pipe: Connection, plan: BenchPlan, index: int, parent: int) -> None:
    """A worker's life: its facts first, then an answer for each unit."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def still_wanted(_: Progress) -> None:
        if os.name == "posix" and os.getppid() != parent:  # the run was killed
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
        try:
            worker = Worker(plan, device_of(plan.device, index), still_wanted)
            pipe.send(Ready(worker.facts(), os.getpid()))
            while True:
                pipe.send(worker.do(pipe.recv()))
        except (InputError, DiskFull) as error:
            pipe.send(error)
        except Exception as error:
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def share_of_cores(plan: BenchPlan, size: int) -> BenchPlan:
    """The plan with as many threads for each of `size` workers as there are cores for it."""
    import torch

    return plan if plan.threads else replace(plan, threads=max(1, torch.get_num_threads() // size))


def device_of(device: str, index: int) -> str:
    """Workers take turns on the GPUs of a machine that has several."""
    import torch

    if device in ("auto", "cuda") and torch.cuda.device_count() > 1:
        return f"cuda:{index % torch.cuda.device_count()}"
    return device
