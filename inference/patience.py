"""How long an outage is waited out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["out_of_patience"]


def out_of_patience(retries: int, patience: float) -> Callable[[RetryCallState], bool]:
    """A stop condition, for one call and its further tries.

    Time is counted from the first failure: a server that answers nothing until a call times out gets another try.

    Args:
        retries: Further tries at most.
        patience: Seconds from the first failure to the last try at most.
    """
    failed_at: list[float] = []

    def stop(state: RetryCallState) -> bool:
        failed_at.append(time.monotonic())
        waited = failed_at[-1] - failed_at[0] + state.upcoming_sleep
        return state.attempt_number > retries or waited > patience

    return stop
