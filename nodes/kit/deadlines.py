"""Deadlines of a node and of a whole run. Work in progress at a deadline is cancelled; finished work is kept."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import RunControl, Runtime

from inference.errors import DeadlineError

_RUNS = 10_000
_begun: OrderedDict[RunControl, float] = OrderedDict()
"""Start of the latest runs on the monotonic clock, by LangGraph's control, of which each run has one."""


@asynccontextmanager
async def within_deadlines(runtime: Runtime[Any]) -> AsyncIterator[None]:
    """Cancel this block at the node's or the run's deadline.

    A node's time is counted from its start. A run's is counted from its first call, and resuming it gives it the same
    time again.

    Raises:
        DeadlineError: It is over.
    """
    started = time.monotonic()
    limits: list[tuple[float, str, str]] = []
    info = runtime.execution_info
    if (seconds := runtime.context.node_timeout) is not None:
        spent = time.time() - info.node_first_attempt_time if info and info.node_first_attempt_time else 0.0
        limits.append((started + seconds - max(0.0, spent), "node", f"{seconds:g} s"))
    if runtime.control is not None and (seconds := runtime.context.run_timeout) is not None:
        begun = _begun.setdefault(runtime.control, started)
        while len(_begun) > _RUNS:
            _begun.popitem(last=False)
        limits.append((begun + seconds, "run", f"{seconds:g} s"))
    if not limits:
        yield
        return
    end, what, length = min(limits)
    try:
        async with asyncio.timeout(end - time.monotonic()) as timer:
            yield
    except TimeoutError:
        if not timer.expired():
            raise
        node = str(get_config().get("metadata", {}).get("langgraph_node", ""))
        message = f"the node took longer than {length}" if what == "node" else f"the run took longer than {length}"
        raise DeadlineError(
            f"{message} (in {node})" if node else message,
            hint=f"resume the run, which has the same time again; or raise {what}_timeout",
        ) from None
