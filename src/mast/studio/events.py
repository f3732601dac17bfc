"""News of jobs for whoever listens: from the queue's thread into the server's loop, and out as server-sent
events. A slow listener misses what is outdated and never fills memory: of each kind it has the latest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

HEARTBEAT = 15.0  # seconds of silence after which a comment shows that the line is open
ENDED = ("done", "failed", "cancelled")


class Listener:
    """What one listener has not heard yet, by kind."""

    def __init__(self) -> None:
        self.news: dict[str, Any] = {}
        self.something = asyncio.Event()

    def tell(self, kind: str, data: Any) -> None:
        self.news.pop(kind, None)  # the latest comes last
        self.news[kind] = data
        self.something.set()

    async def heard(self) -> dict[str, Any]:
        """All that is new; nothing after a while of silence."""
        try:
            await asyncio.wait_for(self.something.wait(), HEARTBEAT)
        except asyncio.TimeoutError:
            return {}
        self.something.clear()
        news, self.news = self.news, {}
        return news


class EventHub:
    """Listeners by job. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self.listeners: dict[str, set[Listener]] = {}
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self.listeners.values()))

    def publish(self, job: str, kind: str, data: Any) -> None:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._tell, job, kind, data)

    def _tell(self, job: str, kind: str, data: Any) -> None:
        for listener in self.listeners.get(job, ()):
            listener.tell(kind, data)

    def close(self) -> None:
        """Ends every stream, so that the server can stop."""
        for job in list(self.listeners):
            self._tell(job, "close", None)

    async def stream(
        self, job: str, now: Callable[[], dict[str, Any] | None], last: int
    ) -> AsyncIterator[str]:
        """Server-sent events of a job, until it has ended: first how it is now, then every change. last: the
        number of the last event that the client has heard of an earlier stream.
        """
        listener, number = Listener(), last
        self.listeners.setdefault(job, set()).add(listener)
        try:
            state = await asyncio.to_thread(now)
            news = {"state": state}
            while True:
                for kind, data in news.items():
                    if kind == "close" or data is None:
                        return
                    number += 1
                    yield encoded(kind, data, number)
                    if kind == "state" and data["state"] in ENDED:
                        return
                news = await listener.heard()
                if not news:
                    yield ": still here\n\n"
        finally:
            there = self.listeners.get(job, set())
            there.discard(listener)
            if not there:
                self.listeners.pop(job, None)


def encoded(kind: str, data: Any, number: int) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
