"""How many calls of one endpoint are in flight, and which waiting call goes next."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Literal

from inference.adaptive import TICK, AdaptiveLimit, Attempt, FixedLimit

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
    """At most so many calls in flight; the others wait by `priority`. Event loops of several threads may share it.

    What changes it holds a lock and awaits nothing; tasks of another loop are woken by that loop. A loop that stands
    still, such as one that was left in the middle of a call, keeps no place from others.

    Args:
        limit: A number, or "auto": it follows what the endpoint can take (`inference.adaptive`).
    """

    def __init__(self, limit: int | Literal["auto"]) -> None:
        self.adaptive = AdaptiveLimit() if limit == "auto" else None
        self._limit = self.adaptive or FixedLimit(int(limit))
        self._lock = threading.RLock()  # collecting garbage may close a coroutine that has a place, at any time
        self._held: dict[AbstractEventLoop, int] = {}
        self._waiting: list[tuple[int, int, _Place]] = []
        self._arrival = count()
        self._listeners: list[tuple[AbstractEventLoop, Callable[[], None]]] = []
        self._announced = self.limit
        self._ticking: set[AbstractEventLoop] = set()
        self._wants_news: dict[AbstractEventLoop, Callable[[], None]] = {}

    @property
    def limit(self) -> int:
        """Calls in flight at most, at present."""
        return self._limit.limit

    @property
    def in_flight(self) -> int:
        """Calls in flight."""
        return sum(held for loop, held in tuple(self._held.items()) if loop.is_running())

    @asynccontextmanager
    async def attempt(self, first: bool = False) -> AsyncIterator[Attempt]:
        """A place among the calls in flight, for one request. Say with `refused` if the server did not take it.

        Args:
            first: Go before all others: this is a further try of a call that had a place before.
        """
        if (waits := on_waiting.get()) is not None:
            waits()
        loop = asyncio.get_running_loop()
        await self._take(loop, first)
        with self._lock:
            attempt = self._limit.sent(time.monotonic())
        answered = False
        try:
            yield attempt
            answered = True
        finally:
            with self._lock:
                if attempt.open and answered:
                    self._limit.replied(attempt, time.monotonic())
                elif attempt.open:
                    self._limit.ended(attempt, time.monotonic())
            self._give_back(loop)

    def refused(self, attempt: Attempt, seconds: float) -> None:
        """The server was too busy for a request, and asks to wait so long (0: it does not say)."""
        with self._lock:
            self._limit.refused(attempt, time.monotonic(), seconds)

    def has_slots(self, slots: int) -> None:
        """The server says how many requests it works on at a time."""
        if self.adaptive is not None:
            with self._lock:
                self.adaptive.has_slots(slots)
            self._let_in()

    def told(self, running: float, waiting: float) -> None:
        """The server says how many requests it works on, and how many wait."""
        if self.adaptive is not None:
            with self._lock:
                self.adaptive.told(running, waiting)
            self._let_in()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called in this event loop whenever the limit has changed."""
        self._listeners.append((asyncio.get_running_loop(), listener))

    def forget(self, listener: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._listeners.remove((asyncio.get_running_loop(), listener))

    def ask_for_news(self, ask: Callable[[], None]) -> None:
        """Have a function called every `TICK` while calls of this event loop wait or are in flight.

        That is the time to ask a server how busy it is.
        """
        self._wants_news[asyncio.get_running_loop()] = ask

    async def _take(self, loop: AbstractEventLoop, first: bool) -> None:
        with self._lock:
            if loop not in self._ticking:
                self._ticking.add(loop)
                loop.call_later(TICK, self._tick, loop)
            if self._is_free() and not self._waiting:
                self._held[loop] = self._held.get(loop, 0) + 1
                return
            place = _Place(loop, loop.create_future())
            heappush(self._waiting, (-1 if first else current_priority(), next(self._arrival), place))
        self._let_in()  # those before it may be of a loop that has ended
        try:
            await place.given
        except BaseException:
            with self._lock:
                place.left = True
                has_it = place.taken
            if has_it:
                self._give_back(loop)
            raise

    def _is_free(self) -> bool:
        return self.in_flight < self.limit and time.monotonic() >= self._limit.paused_until

    def _give_back(self, loop: AbstractEventLoop) -> None:
        with self._lock:
            if loop in self._held:
                self._held[loop] -= 1
        self._let_in()

    def _let_in(self) -> None:
        """Give places to those that wait, and say that the limit has changed."""
        with self._lock:
            while self._waiting and self._is_free():
                place = heappop(self._waiting)[2]
                if not place.left and _call_in(place.loop, place.give):
                    place.taken = True
                    self._held[place.loop] = self._held.get(place.loop, 0) + 1
            changed, self._announced = self._announced != self.limit, self.limit
            listeners = list(self._listeners) if changed else []
            for loop in [loop for loop in self._ticking if loop.is_closed()]:
                self._ticking.discard(loop)
                self._held.pop(loop, None)
                self._wants_news.pop(loop, None)
        for loop, listener in listeners:
            _call_in(loop, listener)

    def _tick(self, loop: AbstractEventLoop) -> None:
        """What time brings: replies that are late, the end of a pause, the server's figures."""
        with self._lock:
            if not self._held.get(loop) and not any(place.loop is loop for _, _, place in self._waiting):
                self._ticking.discard(loop)
                return
            self._limit.tick(time.monotonic())
        if (ask := self._wants_news.get(loop)) is not None:
            ask()
        self._let_in()
        loop.call_later(TICK, self._tick, loop)


@dataclass(eq=False, slots=True)
class _Place:
    """A task that waits for its place."""

    loop: AbstractEventLoop
    given: asyncio.Future[None]
    taken: bool = False
    """It was let in, whether or not it knows."""
    left: bool = False
    """It was cancelled."""

    def give(self) -> None:
        """Wake the task; in its loop."""
        if not self.given.done():
            self.given.set_result(None)


def _call_in(loop: AbstractEventLoop, call: Callable[[], None]) -> bool:
    """Call a function in an event loop: at once if it is the one that runs here. False if it has ended."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        call()
        return True
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # closed
        return False
    return True
