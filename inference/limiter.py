"""How many calls of one endpoint are in flight, and which waiting call goes next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Literal

from inference.adaptive import OPENING_PAUSE, AdaptiveLimit, Attempt, FixedLimit

__all__ = ["Limiter", "current_priority", "on_waiting", "priority"]

priority: ContextVar[int | Callable[[], int]] = ContextVar("priority", default=0)
"""Scheduling priority of a task's calls: lower runs first; ties are FIFO. A function is asked for each call.

An evaluation sets it to a question's number, so that questions that were begun end before others begin.
"""

on_waiting: ContextVar[Callable[[], None] | None] = ContextVar("on_waiting", default=None)
"""Called whenever a task asks for a place: until its reply is there, it does not need this process."""


def current_priority() -> int:
    """The priority of a call that is made now."""
    value = priority.get()
    return value if isinstance(value, int) else value()


class Limiter:
    """At most so many calls in flight; the others wait by `priority`. For one event loop.

    Args:
        limit: A number, or "auto": it follows what the endpoint can take (`inference.adaptive`).
    """

    def __init__(self, limit: int | Literal["auto"]) -> None:
        self.adaptive = AdaptiveLimit() if limit == "auto" else None
        self._limit = self.adaptive or FixedLimit(int(limit))
        self._held = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = count()
        self._listeners: list[Callable[[], None]] = []
        self._announced = self.limit
        self._ticking = False
        self.wants_news: Callable[[], None] | None = None
        """Called every `OPENING_PAUSE` while calls wait or are in flight: the time to ask a server how busy it is."""

    @property
    def limit(self) -> int:
        """Calls in flight at most, at present."""
        return self._limit.limit

    @property
    def in_flight(self) -> int:
        """Calls in flight."""
        return self._held

    @asynccontextmanager
    async def attempt(self, first: bool = False) -> AsyncIterator[Attempt]:
        """A place among the calls in flight, for one request. Say with `replied` or `refused` how it went.

        Args:
            first: Go before all others: this is a further try of a call that had a place before.
        """
        await self._take(first)
        attempt = self._limit.sent(asyncio.get_running_loop().time())
        try:
            yield attempt
        except BaseException:
            if attempt.open:
                self._limit.ended(attempt)
            raise
        else:
            if attempt.open:
                self._limit.replied(attempt, asyncio.get_running_loop().time())
        finally:
            self._held -= 1
            self._let_in()

    def refused(self, attempt: Attempt, seconds: float) -> None:
        """The server was too busy for a request, and asks to wait so long (0: it does not say)."""
        self._limit.refused(attempt, asyncio.get_running_loop().time(), seconds)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called whenever the limit has changed."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._listeners.remove(listener)

    def update(self) -> None:
        """Let in as many as the limit allows, after it has changed."""
        self._let_in()

    async def _take(self, first: bool) -> None:
        if (waits := on_waiting.get()) is not None:
            waits()
        loop = asyncio.get_running_loop()
        if self.adaptive is not None and not self._ticking:
            self._ticking = True
            loop.call_later(OPENING_PAUSE, self._tick)
        if self._held < self.limit and loop.time() >= self._limit.paused_until and not self._waiting:
            self._held += 1
            return
        place = loop.create_future()
        heappush(self._waiting, (-1 if first else current_priority(), next(self._arrival), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it has the place, and can't use it any more
                self._held -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and self._held < self.limit and now >= self._limit.paused_until:
            place = heappop(self._waiting)[2]
            if not place.done():
                self._held += 1
                place.set_result(None)
        if self._announced != self.limit:
            self._announced = self.limit
            for listener in list(self._listeners):
                listener()

    def _tick(self) -> None:
        """What time brings: the opening, the end of a pause, the server's figures."""
        if self.adaptive is None or not (self._held or self._waiting):
            self._ticking = False
            return
        if self.wants_news is not None:
            self.wants_news()
        if self._held >= self.limit:
            self.adaptive.opened()
        self._let_in()
        asyncio.get_running_loop().call_later(OPENING_PAUSE, self._tick)
