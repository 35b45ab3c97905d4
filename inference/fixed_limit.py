"""A constant limit of calls in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Attempt:
    """A request that was sent."""

    at: float
    epoch: int
    """Number of the limit it was sent under: only the first refusal under a limit cuts it."""
    open: bool = True


class FixedLimit:
    """A constant limit.

    Args:
        limit: Maximum calls in flight.
    """

    paused_until = 0.0

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0

    def sent(self, now: float) -> Attempt:
        """Count a request that is sent."""
        self.in_flight += 1
        return Attempt(now, 0)

    def replied(self, attempt: Attempt, now: float) -> None:
        """Count its reply."""
        self._end(attempt, now)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server refused the request because it is overloaded."""
        self._end(attempt, now)

    def ended(self, attempt: Attempt, now: float) -> None:
        """It ended without information about load: cancelled, a bad request, no connection."""
        self._end(attempt, now)

    def tick(self, now: float) -> None:
        """Called every `inference.adaptive.TICK` seconds while calls wait or are in flight."""

    def _end(self, attempt: Attempt, now: float) -> None:
        attempt.open = False
        self.in_flight -= 1
