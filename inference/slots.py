"""A bound on what is in flight, which lets the oldest go first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count

__all__ = ["Slots", "on_waiting", "turn"]

turn: ContextVar[int] = ContextVar("turn", default=0)
"""Whose turn a task is: of those that wait for a slot the lowest goes first, and of equals the first that came.

Whoever runs many questions sets it to a question's number: what was begun is ended before more is begun, so that
results come early.
"""

on_waiting: ContextVar[Callable[[], None] | None] = ContextVar("on_waiting", default=None)
"""Called whenever a task asks for a slot: until its reply is there, it does not need this process."""


class Slots:
    """As `asyncio.Semaphore`, in the order of `turn`.

    Args:
        free: How many may hold a slot at the same time.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = count()

    async def __aenter__(self) -> None:
        if (waits := on_waiting.get()) is not None:
            waits()
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (turn.get(), next(self._arrival), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it got the slot and can't use it any more
                self._give_back()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            place = heappop(self._waiting)[2]
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
