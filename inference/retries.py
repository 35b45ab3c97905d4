"""Retry policy: exponential backoff, limited in attempts and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inference.http import retry_after_seconds

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_BACKOFF, MAX_BACKOFF = 0.5, 30.0
"""Backoff in seconds: initial and maximum."""


def retry_policy(retries: int, patience: float, is_transient: Callable[[BaseException], bool]) -> dict[str, Any]:
    """Arguments of tenacity's `Retrying` and `AsyncRetrying`, for one call.

    Pauses grow exponentially, with jitter; `Retry-After` is honoured up to `MAX_BACKOFF`. The last error is raised.

    Args:
        retries: Maximum attempts after the first one.
        patience: Maximum seconds from the first failure to the last attempt.
        is_transient: Whether to retry after an error.
    """
    from tenacity import retry_if_exception, wait_exponential, wait_random

    backoff = wait_exponential(multiplier=FIRST_BACKOFF, max=MAX_BACKOFF) + wait_random(0, FIRST_BACKOFF)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return max(backoff(state), min(MAX_BACKOFF, retry_after_seconds(error)))

    stop = _out_of_patience(retries, patience)
    return {"stop": stop, "wait": wait, "retry": retry_if_exception(is_transient), "reraise": True}


def _out_of_patience(retries: int, patience: float) -> Callable[[RetryCallState], bool]:
    """A stop condition for one call.

    Time counts from the first failure: a server that answers nothing until a call times out gets another attempt.
    """
    failed_at: list[float] = []

    def stop(state: RetryCallState) -> bool:
        failed_at.append(time.monotonic())
        waited = failed_at[-1] - failed_at[0] + state.upcoming_sleep
        return state.attempt_number > retries or waited > patience

    return stop
