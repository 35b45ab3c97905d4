"""Shutdown of the local server: SIGTERM waits for model calls in flight, ctrl-C does not. Running runs are saved.

uvicorn handles both signals while it serves, shuts down, and then raises the received signal again.
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
from hopgraph.studio.names import names
from stores.checkpoints import open_served_checkpoints

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

CLOSING = 1
"""Seconds for open requests to end, such as those that wait for a run."""
_served = False
_under_way = 0
"""Runs that were active when a signal arrived."""


def stop_cleanly() -> None:
    """Install handlers: a signal ends the process at once, or raises `Stopped` once the server has shut down."""
    for number in EXITS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # shells ignore it for background processes
            signal.signal(number, _after_serving)


def _after_serving(number: int, frame: object) -> None:
    if not _served:
        at_once(number, frame)
    raise Stopped(number, "unfinished runs resume with the next `hopgraph studio`" if _under_way else "")


def _at_once(number: int, _frame: object) -> None:
    """`at_once` in its own thread: in the loop's thread, the server reports writes to stderr as blocking calls."""
    _thread.start_new_thread(at_once, (number, None))


@asynccontextmanager
async def checkpoints() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """The server's checkpointer, opened once in the server's loop, after uvicorn has installed its handlers."""
    global _served
    _served = True
    for number in EXITS:
        if callable(theirs := signal.getsignal(number)):
            signal.signal(number, _while_serving(asyncio.get_running_loop(), theirs))
    async with open_served_checkpoints() as saver:
        yield names().translating(saver)


def _while_serving(loop: asyncio.AbstractEventLoop, theirs: Callable[[int, Any], object]) -> Callable[..., None]:
    """A handler that drains before uvicorn's handler shuts down. A second signal ends the process at once."""
    from langgraph_runtime_inmem.queue import get_num_workers

    draining: list[asyncio.Task[None]] = []

    def handle(number: int, frame: object) -> None:
        def shut_down() -> None:
            # It logs each cancelled request as an error.
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
