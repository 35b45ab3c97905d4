"""Asynchronous code from plain Python: one event loop in its own thread, also if another loop is running."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
_LEAVING = 2.0
"""Seconds for closing connections when Python exits."""


@lru_cache
def background_loop() -> asyncio.AbstractEventLoop:
    """The loop, started when it is first used. Connections and rate limits of all synchronous calls belong to it."""
    import uvloop

    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="hopgraph", daemon=True)
    thread.start()
    atexit.register(_leave, loop, thread)
    return loop


# A forked process does not have the thread.
os.register_at_fork(after_in_child=background_loop.cache_clear)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Wait for a coroutine that runs in the background loop. Ctrl-C cancels it.

    Raises:
        RuntimeError: It is called from the background loop itself, which would wait for itself.
    """
    if _inside():
        work.close()
        raise RuntimeError("a synchronous call inside an asynchronous node: await `ainvoke` or `astream` instead")
    job = _Job(work)
    try:
        return job.future.result()
    finally:
        job.stop()


def iterate(source: Callable[[], AsyncGenerator[Result, None]]) -> Generator[Result, None, None]:
    """The items of an asynchronous generator that runs in the background loop, each produced on demand.

    Closing this generator, and ctrl-C, cancel what runs.

    Raises:
        RuntimeError: As `run`.
    """
    if _inside():
        raise RuntimeError("a synchronous call inside an asynchronous node: use `astream` instead")
    loop = background_loop()
    wanted = asyncio.Semaphore(0)
    ready: SimpleQueue[tuple[Result] | None] = SimpleQueue()

    async def pump() -> None:
        # All in one task: what LangGraph enters in a task it has to leave in the same.
        async with aclosing(source()) as items:
            await wanted.acquire()
            async for item in items:
                ready.put((item,))
                await wanted.acquire()

    job = _Job(pump())
    job.future.add_done_callback(lambda _: ready.put(None))
    try:
        while True:
            loop.call_soon_threadsafe(wanted.release)
            item = ready.get()
            if item is None:
                job.future.result()
                return
            yield item[0]
    finally:
        job.stop()


class _Job(Generic[Result]):
    """A task of the background loop, with the caller's context variables."""

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self.future: Future[Result] = Future()
        self._task: asyncio.Task[Result] | None = None
        self._loop = background_loop()
        self._loop.call_soon_threadsafe(self._begin, work)  # takes the context along

    def _begin(self, work: Coroutine[Any, Any, Result]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Result]) -> None:
        if task.cancelled():
            self.future.set_exception(CancelledError())
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())

    def stop(self) -> None:
        """Cancel the task if it has not ended, and wait for its end."""
        if self.future.done():
            return
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
        if not _inside():  # a generator may be collected in any thread
            with suppress(Exception, CancelledError):
                self.future.result()


def _inside() -> bool:
    """Whether this is the background loop's own thread."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return background_loop.cache_info().currsize > 0 and running is background_loop()


def _leave(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """At exit: close connections, which belong to asynchronous generators, and end the loop."""
    if not thread.is_alive():
        return

    async def close() -> None:
        loop.set_exception_handler(lambda *_: None)  # threads are gone by now: not everything can be closed
        await loop.shutdown_asyncgens()

    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(close(), loop).result(_LEAVING)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_LEAVING)
