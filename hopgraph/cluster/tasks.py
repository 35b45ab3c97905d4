"""Waits for the tasks of a command on Ray, which starts those of a dead node again on another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from hopgraph.cluster.connection import NodeWatch
from inference.errors import HopgraphError, StoreError

RESUME = "nothing is lost: run the same command again to resume"
"""Hint of what stops a command that can be resumed so."""
RETRIES = 20
"""Dead workers of a task after which the command stops."""
_POLL = 0.3
"""Seconds between two looks at the tasks."""


async def finish(
    tasks: Mapping[Any, str], on_poll: Callable[[], None], note: Callable[[str], None], how_to_resume: str
) -> list[Any]:
    """Wait until all tasks have ended; returns what they returned. A task returns the error that stopped it.

    Args:
        tasks: Ray's references, and their names for messages, such as `shard 1/4`.
        on_poll: Called a few times a second, and after each task that has ended.
        note: Called with what an operator should know: a node has died.
        how_to_resume: For the hint of an error.

    Raises:
        HopgraphError: A task can't go on. The others are stopped when the connection ends.
    """
    import ray

    waiting, nodes, found = dict(tasks), NodeWatch(), list[Any]()
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        on_poll()
        for task in done:
            found.append(result_of(task, waiting.pop(task), how_to_resume))
        for name in nodes.died():
            note(f"node {name} has died; its work goes on on another one")
        await asyncio.sleep(_POLL)
    return found


def result_of(task: Any, name: str, how_to_resume: str) -> Any:
    """What a task returned; waits for it. Arguments and errors as for `finish`."""
    import ray

    try:
        found = ray.get(task)
    except ray.exceptions.RayError as error:
        text = " ".join(str(error).split())
        raise StoreError(f"{name} failed on the cluster: {text[-600:]}", hint=how_to_resume) from None
    if isinstance(found, HopgraphError):
        raise found
    return found
