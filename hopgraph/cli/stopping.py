"""Stopping a command with work to save: immediately on ctrl-C, after the model calls in flight on SIGTERM.

Either way committed work is kept, and the command that resumes is printed. A second signal ends the process without
waiting, which loses only the calls in flight.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from hopgraph.cli.errors import note
from hopgraph.signals import EXITS, Stopped, at_once
from inference import drain
from inference.errors import HopgraphError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

DRAIN = 25.0
"""Seconds that model calls in flight may take after SIGTERM: less than the 30 s after which Kubernetes kills."""
SETTLE = 0.5
"""Seconds after the last call for its reply to be committed."""
_STOPS = (KeyboardInterrupt, asyncio.CancelledError)
"""Our handlers cancel the running task; outside the main thread, asyncio's do."""


@contextmanager
def stoppable(how_to_resume: str) -> Iterator[None]:
    """Print how to resume if a signal stops this block.

    Raises:
        Stopped: A signal stopped it.
    """
    with _signals() as came:
        try:
            yield
        except _STOPS:
            _say(how_to_resume)
            raise Stopped(came(), how_to_resume) from None
        if drain.draining():
            _say(how_to_resume)
            raise Stopped(came(), how_to_resume)


@asynccontextmanager
async def resumable(thread: str, saver: BaseCheckpointSaver[str]) -> AsyncIterator[None]:
    """The same for a run, which may have no checkpoint yet. A run that still ended has a result to show.

    Raises:
        Stopped: A signal stopped it.
    """
    with _signals() as came:
        try:
            yield
        except _STOPS:
            how_to_resume = f"resume with `hopgraph resume {thread}`"
            with suppress(TimeoutError, HopgraphError):  # of a store that is away
                async with asyncio.timeout(SETTLE):
                    if await saver.aget_tuple({"configurable": {"thread_id": thread}}) is None:
                        how_to_resume = ""
            _say(how_to_resume)
            raise Stopped(came(), how_to_resume) from None


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    """Handle signals; yields a function that returns the signal received."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: signal.SIGINT
        return
    try:
        loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    task = asyncio.current_task() if loop else None
    came: list[int] = []
    draining: list[asyncio.Task[None]] = []

    def handle(number: int, frame: object) -> None:
        came.append(number)
        if len(came) > 1:
            at_once(number, frame)
        elif loop is None or task is None:
            raise KeyboardInterrupt
        elif number == signal.SIGTERM:
            loop.call_soon_threadsafe(lambda: draining.append(loop.create_task(drained(task.cancel))))
        else:
            loop.call_soon_threadsafe(task.cancel)

    # A background process ignores ctrl-C, and keeps doing so.
    before = {number: old for number in EXITS if (old := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handle)
    try:
        yield lambda: came[0] if came else signal.SIGINT
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        for waiting in draining:
            waiting.cancel()
        drain.finish()


async def drained(stop: Callable[[], object]) -> None:
    """Wait for model calls in flight, then stop the run."""
    drain.begin()
    if calls := drain.in_flight():
        count = f"{calls} model call{'s' if calls > 1 else ''} in flight"
        note(f"hopgraph: stopping; {count} may take up to {DRAIN:.0f} s, a second signal stops immediately")
    with suppress(TimeoutError):
        await asyncio.wait_for(drain.answered(), DRAIN)
    await asyncio.sleep(SETTLE)
    stop()


def _say(how_to_resume: str) -> None:
    note(f"hopgraph: stopped; {how_to_resume}" if how_to_resume else "hopgraph: stopped")
