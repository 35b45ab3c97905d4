"""Admission of runs: so many run at a time, so many wait, and the others are refused."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hopgraph.server.errors import ApiError

_LONGEST_WAIT = 60
"""Seconds that a refused client is told to wait, at most."""


def stopping() -> ApiError:
    """The server is being stopped."""
    return ApiError(
        503, "the server is being stopped", type="server_error", code="stopping", headers={"retry-after": "1"}
    )


class Admission:
    """A first-come, first-served queue with a bound.

    Args:
        running: Maximum number of concurrent runs.
        waiting: Maximum number of those that wait.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._places = running
        self._most_waiting = waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self._seconds = 1.0
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Number of those that wait."""
        return len(self._queue)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and keep it.

        Raises:
            ApiError: The queue is full, or the server is being stopped.
        """
        await self._enter()
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
            self._leave()

    def check(self) -> None:
        """Check that a request would be admitted or queued.

        Raises:
            ApiError: The queue is full, or the server is being stopped.
        """
        if self._closed:
            raise stopping()
        if self.running >= self._places and self.waiting >= self._most_waiting:
            seconds = math.ceil(self._seconds * (self.waiting + 1) / self._places)
            raise ApiError(
                429,
                f"{self.running} runs are in progress and {self.waiting} wait: try again later",
                type="rate_limit_error",
                code="queue_full",
                headers={"retry-after": str(min(max(seconds, 1), _LONGEST_WAIT))},
            )

    def close(self) -> None:
        """Admit no more, and refuse those that wait."""
        self._closed = True
        while self._queue:
            if not (first := self._queue.popleft()).done():
                first.set_exception(stopping())

    async def _enter(self) -> None:
        self.check()
        if self.running < self._places and not self._queue:
            self.running += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave()  # it was this one's turn
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def _leave(self) -> None:
        """Pass the place on to the first that waits."""
        while self._queue:
            if not (first := self._queue.popleft()).done():
                first.set_result(None)
                return
        self.running -= 1
