"""How the local server stops: SIGTERM lets model calls in flight end first, ctrl-C does not. Runs under way are kept.

uvicorn handles both signals while it serves, shuts down, and then raises the one that came once more.
"""

from __future__ import annotations

import _thread
import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hopgraph.cli.stopping import drained
from hopgraph.signals import EXITS, Stopped, at_once
from stores.checkpoints import open_served_checkpoints

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["CLOSING", "checkpoints", "stop_cleanly"]

CLOSING = 1
"""Seconds that open requests have to end, such as those that wait for a run."""
_served = False
_under_way = 0
"""Runs that were under way when a signal came."""


def stop_cleanly() -> None:
    """From now on a signal ends the process at once, or raises `Stopped` when the server has shut down."""
    for number in EXITS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell starts what it puts into the background
            signal.signal(number, _after_serving)


def _after_serving(number: int, frame: object) -> None:
    if not _served:
        at_once(number, frame)
    raise Stopped(number, "runs under way go on with the next `hopgraph studio`" if _under_way else "")


def _at_once(number: int, _frame: object) -> None:
    """`at_once` in its own thread: in the loop's, the server takes writing to stderr for a blocking call."""
    _thread.start_new_thread(at_once, (number, None))


@asynccontextmanager
async def checkpoints() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """The server's checkpointer. The server opens it once, in its own loop; uvicorn's handlers are in force by then."""
    global _served
    _served = True
    for number in EXITS:
        if callable(theirs := signal.getsignal(number)):
            signal.signal(number, _while_serving(asyncio.get_running_loop(), theirs))
    async with open_served_checkpoints() as saver:
        yield saver


def _while_serving(loop: asyncio.AbstractEventLoop, theirs: Callable[[int, Any], object]) -> Callable[..., None]:
    """A handler that drains before uvicorn's shuts down. A second signal ends the process at once."""
    from langgraph_runtime_inmem.queue import get_num_workers

    draining: list[asyncio.Task[None]] = []

    def handle(number: int, frame: object) -> None:
        def shut_down() -> None:
            # It reports each request that it cuts off as an error.
            logging.getLogger("uvicorn.error").disabled = True
            theirs(number, None)

        def begin() -> None:
            global _under_way
            _under_way = get_num_workers()
            if number == signal.SIGTERM:
                draining.append(loop.create_task(drained(shut_down)))
            else:
                shut_down()

        for each in EXITS:
            signal.signal(each, _at_once)
        loop.call_soon_threadsafe(begin)

    return handle
