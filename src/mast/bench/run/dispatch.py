"""From a plan to pictures: gives units of work to a crew and keeps count.

A crew is a number of workers somewhere: this process, processes beside it, or actors of a Ray cluster. It may
lose workers; then the unit is tried once more, and a unit that has cost two workers is recorded as failed.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ...job import InputError
from ..data.manifest import BenchSample
from . import records
from .order import split
from .worker import BenchPlan, Outcome, Unit, Worker, or_full

DEATHS = 2  # workers a unit may cost before it counts as failed, or starts that may fail in a row


@dataclass(frozen=True)
class Ready:
    """A worker has loaded its model; `facts` is what it would write to run.json."""

    facts: dict[str, records.Facts]
    pid: int


@dataclass(frozen=True)
class Died:
    """A worker is gone, with whatever it was doing."""

    reason: str


Reply: TypeAlias = "Ready | Died | list[Outcome] | Exception"
Tell: TypeAlias = Callable[[Outcome], None]


class Crew(Protocol):
    """`size` workers by index. A worker that was started, or given a unit, gives one reply."""

    size: int

    def start(self, index: int) -> None:
        """Starts a worker, or another in the place of one that died."""

    def give(self, index: int, unit: Unit) -> None: ...

    def wait(self) -> tuple[int, Reply]:
        """The next reply of any worker."""

    def close(self) -> None:
        """Ends all workers at once; they leave nothing half-written."""


class InProcess:
    """A crew of one: this process."""

    size = 1

    def __init__(self, plan: BenchPlan):
        self.plan, self.worker, self.unit = plan, None, None

    worker: Worker | None
    unit: Unit | None

    def start(self, index: int) -> None:
        self.worker = None

    def give(self, index: int, unit: Unit) -> None:
        self.unit = unit

    def wait(self) -> tuple[int, Reply]:
        if self.worker is None:
            self.worker = Worker(self.plan)
            return 0, Ready(self.worker.facts(), os.getpid())
        assert self.unit is not None
        return 0, self.worker.do(self.unit)

    def close(self) -> None:
        self.worker = None


@dataclass
class Summary:
    """What a run did: pictures by (variant, sample), and what is worth saying."""

    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    threads: int = 0
    device: str = ""

    def count(self, *statuses: str, variant: str | None = None) -> int:
        return sum(
            outcome.status in statuses and variant in (None, outcome.variant)
            for outcome in self.outcomes.values()
        )

    @property
    def failed(self) -> list[Outcome]:
        return [o for o in self.outcomes.values() if o.status in ("failed", "failed before")]

    @property
    def held(self) -> list[Outcome]:
        return [o for o in self.outcomes.values() if o.status == "held"]


def run(plan: BenchPlan, samples: Sequence[BenchSample], crew: Crew, tell: Tell) -> Summary:
    """Makes every picture of the samples (in their order) that is not there yet; tell hears of each.

    The crew is closed at the end, whatever the end.
    """
    summary = Summary()

    def hear(outcome: Outcome) -> None:
        known = summary.outcomes.get((outcome.variant, outcome.sample))
        news = known is None or outcome.status in ("made", "failed")
        if news or (known is not None and known.status == "held" != outcome.status):
            summary.outcomes[outcome.variant, outcome.sample] = outcome
            tell(outcome)

    try:
        crew.start(0)
        _, reply = crew.wait()
        dispatch = _Dispatch(plan, crew, _ready(reply), hear)
        facts = next(iter(dispatch.first.facts.values()))
        summary.threads, summary.device = facts["threads"], facts["device"]
        summary.notes += or_full(lambda: records.agree(plan.out, dispatch.first.facts))
        dispatch.go(_queues(plan, samples, crew.size, hear))
        held = {outcome.sample for outcome in summary.held}
        if held:  # by now the other runner may have finished them, or be gone
            dispatch.go(_queues(plan, [s for s in samples if s.id in held], crew.size, hear))
    finally:
        crew.close()
    return summary


def _ready(reply: Reply) -> Ready:
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, Died):
        raise RuntimeError(f"the first worker died while it loaded its model ({reply.reason})")
    assert isinstance(reply, Ready)
    return reply


def _queues(plan: BenchPlan, samples: Sequence[BenchSample], workers: int, hear: Tell) -> list[deque[Unit]]:
    """What is to do, a queue for each worker: all variants of a sample together, samples in their order."""
    todo: dict[str, list[Unit]] = {}
    for sample in samples:
        for group, variants in enumerate(plan.groups):
            missing = plan.missing((sample.id, group))
            if missing:
                todo.setdefault(sample.id, []).append((sample.id, group))
            for variant in variants:
                if variant not in missing:
                    hear(Outcome(variant.name, sample.id, "already"))
    waiting = [sample for sample in samples if sample.id in todo]
    return [deque(unit for sample in part for unit in todo[sample.id]) for part in split(waiting, workers)]


class _Dispatch:
    """Units to workers, replies to the one who listens; what each worker is at, and what it cost."""

    def __init__(self, plan: BenchPlan, crew: Crew, first: Ready, hear: Tell):
        self.plan, self.crew, self.first, self.hear = plan, crew, first, hear
        self.idle = {0}
        self.busy: dict[int, Unit | None] = {}  # None: loading its model
        self.deaths: Counter[Unit] = Counter()
        self.bad_starts: Counter[int] = Counter()
        self.queues: list[deque[Unit]] = []

    def go(self, queues: list[deque[Unit]]) -> None:
        """Until every queue is empty and nobody at work; who is still loading by then is not waited for."""
        self.queues = queues
        for index in range(min(self.crew.size, sum(map(len, queues)))):
            if index in self.idle:
                self._feed(index)
            elif index not in self.busy:
                self._start(index)
        while self.busy and (any(self.queues) or any(self.busy.values())):
            index, reply = self.crew.wait()
            unit = self.busy.pop(index)
            if isinstance(reply, Exception):
                raise reply
            if isinstance(reply, Died):
                self._lost(index, unit, reply)
                continue
            if isinstance(reply, Ready):
                self._alike(reply)
                self.bad_starts[index] = 0
            else:
                for outcome in reply:
                    self.hear(outcome)
            self._feed(index)

    def _start(self, index: int) -> None:
        self.idle.discard(index)
        self.busy[index] = None
        self.crew.start(index)

    def _feed(self, index: int) -> None:
        """The next of its own queue, or the last of the longest other one."""
        self.idle.discard(index)
        longest = max(self.queues, key=len)
        if self.queues[index]:
            unit = self.queues[index].popleft()
        elif longest:
            unit = longest.pop()
        else:
            self.idle.add(index)
            return
        self.busy[index] = unit
        self.crew.give(index, unit)

    def _lost(self, index: int, unit: Unit | None, death: Died) -> None:
        if unit is None:
            self.bad_starts[index] += 1
            if self.bad_starts[index] >= DEATHS:  # go on without it, while there are others
                if not self.busy and any(self.queues):
                    raise RuntimeError(f"workers die while they load their model ({death.reason})")
                return
        else:
            self.deaths[unit] += 1
            if self.deaths[unit] < DEATHS:
                self.queues[index].appendleft(unit)
            else:
                self._give_up(unit, death)
        if any(self.queues):
            self._start(index)

    def _give_up(self, unit: Unit, death: Died) -> None:
        reason = f"its worker died {DEATHS} times ({death.reason})"
        for variant in self.plan.missing(unit):
            records.record_failure(self.plan.out / variant.name, unit[0], reason)
            self.hear(Outcome(variant.name, unit[0], "failed", reason))

    def _alike(self, other: Ready) -> None:
        """Pictures of one run must not depend on which worker made them."""
        for name, facts in other.facts.items():
            for what, value in facts.items():
                if value != self.first.facts[name][what]:
                    raise InputError(
                        f"the workers differ: {what} is {self.first.facts[name][what]} in one and {value} in "
                        "another, so bits would depend on who makes a picture; give --device or --threads"
                    )
