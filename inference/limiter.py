"""Concurrency limiter of an endpoint's calls, with a priority queue."""

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

from inference.adaptive import TICK, AdaptiveLimit
from inference.fixed_limit import Attempt, FixedLimit

priority: ContextVar[int | Callable[[], int]] = ContextVar("priority", default=0)
"""Scheduling priority of a task's calls: lower runs first; ties are FIFO. A function is asked for each call.

An evaluation sets it to a question's number, so that questions that were begun end before others begin.
"""

on_waiting: ContextVar[Callable[[], None] | None] = ContextVar("on_waiting", default=None)
"""Called whenever a task waits for a slot and its reply; it does not use this process meanwhile."""


def current_priority() -> int:
    """The scheduling priority of the current task."""
    value = priority.get()
    return value if isinstance(value, int) else value()


class Limiter:
    """Limits the calls in flight; the others queue by `priority`. Event loops of several threads may share it.

    State changes hold a lock and never await; tasks of another loop are woken in that loop. A loop that no longer runs
    does not occupy slots.

    Args:
        limit: A number, or "auto" for an adaptive limit (`inference.adaptive`).
    """

    def __init__(self, limit: int | Literal["auto"]) -> None:
        self.adaptive = AdaptiveLimit() if limit == "auto" else None
        self._limit = self.adaptive or FixedLimit(int(limit))
        self._lock = (
            threading.RLock()
        )  # reentrant: garbage collection may close a coroutine that holds a slot at any time
        self._held: dict[AbstractEventLoop, int] = {}
        self._waiting: list[tuple[int, int, _Place]] = []
        self._arrival = count()
        self._listeners: list[tuple[AbstractEventLoop, Callable[[], None]]] = []
        self._announced = self.limit
        self._ticking: set[AbstractEventLoop] = set()
        self._tick_callbacks: dict[AbstractEventLoop, Callable[[], None]] = {}

    @property
    def limit(self) -> int:
        """Current maximum of calls in flight."""
        return self._limit.limit

    @property
    def in_flight(self) -> int:
        """Calls in flight, of all running event loops."""
        return sum(held for loop, held in tuple(self._held.items()) if loop.is_running())

    @property
    def load(self) -> float:
        """Calls in flight and waiting, per slot."""
        with self._lock:
            waiting = sum(not place.left for _, _, place in self._waiting)
            return (self.in_flight + waiting) / self.limit

    @asynccontextmanager
    async def attempt(self, first: bool = False) -> AsyncIterator[Attempt]:
        """Acquire a slot for one request. Call `refused` if the server did not accept it.

        Args:
            first: Skip the queue: this is a retry.
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
            self._release(loop)

    def refused(self, attempt: Attempt, seconds: float) -> None:
        """The server was overloaded and refused a request; `seconds` is its `Retry-After`, 0 without one."""
        with self._lock:
            self._limit.refused(attempt, time.monotonic(), seconds)

    def set_slots(self, slots: int) -> None:
        """Set the server's number of parallel requests, as it reports it."""
        if self.adaptive is not None:
            with self._lock:
                self.adaptive.set_slots(slots)
            self._admit()

    def set_load(self, running: float, waiting: float) -> None:
        """Set the server's load, as it reports it: running and waiting requests."""
        if self.adaptive is not None:
            with self._lock:
                self.adaptive.set_load(running, waiting)
            self._admit()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call a function in this event loop whenever the limit changes."""
        self._listeners.append((asyncio.get_running_loop(), listener))

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Undo `add_listener`."""
        self._listeners.remove((asyncio.get_running_loop(), listener))

    def on_tick(self, ask: Callable[[], None]) -> None:
        """Call a function every `TICK` seconds while calls of this event loop wait or are in flight.

        It may poll the server's load.
        """
        self._tick_callbacks[asyncio.get_running_loop()] = ask

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
        self._admit()  # earlier ones may belong to a closed loop
        try:
            await place.given
        except BaseException:
            with self._lock:
                place.left = True
                has_it = place.taken
            if has_it:
                self._release(loop)
            raise

    def _is_free(self) -> bool:
        return self.in_flight < self.limit and time.monotonic() >= self._limit.paused_until

    def _release(self, loop: AbstractEventLoop) -> None:
        with self._lock:
            if loop in self._held:
                self._held[loop] -= 1
        self._admit()

    def _admit(self) -> None:
        """Grant free slots in queue order, and notify listeners if the limit has changed."""
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
                self._tick_callbacks.pop(loop, None)
        for loop, listener in listeners:
            _call_in(loop, listener)

    def _tick(self, loop: AbstractEventLoop) -> None:
        """Periodic work: overdue replies, the end of a pause, the server's load."""
        with self._lock:
            if not self._held.get(loop) and not any(place.loop is loop for _, _, place in self._waiting):
                self._ticking.discard(loop)
                return
            self._limit.tick(time.monotonic())
        if (ask := self._tick_callbacks.get(loop)) is not None:
            ask()
        self._admit()
        loop.call_later(TICK, self._tick, loop)


@dataclass(eq=False, slots=True)
class _Place:
    """A queued task."""

    loop: AbstractEventLoop
    given: asyncio.Future[None]
    taken: bool = False
    """A slot was granted; the task may not have resumed yet."""
    left: bool = False
    """The task was cancelled."""

    def give(self) -> None:
        """Wake the task; call it in the task's loop."""
        if not self.given.done():
            self.given.set_result(None)


def _call_in(loop: AbstractEventLoop, call: Callable[[], None]) -> bool:
    """Call a function in an event loop, at once if it is the current one. False if the loop is closed."""
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
