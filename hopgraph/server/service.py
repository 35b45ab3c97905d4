"""Runs of the server: admitted, continued, cancelled and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from hopgraph.checks import check_run
from hopgraph.methods import load
from hopgraph.origins import config_of, new_thread
from hopgraph.run import Run, resume
from hopgraph.server.admission import Admission, stopping
from hopgraph.server.answers import Answer, sources_of
from hopgraph.server.errors import THREAD, ApiError, of_failure
from hopgraph.server.history import stand_alone
from hopgraph.server.metrics import Metrics
from hopgraph.threads import read_thread
from inference import drain
from inference.limiter import priority
from stores.checkpoints import open_checkpoints

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from hopgraph.listeners import Token
    from hopgraph.results import Result
    from hopgraph.server.options import Options
    from hopgraph.server.requests import ChatRequest
    from nodes.kit.events import Event


@dataclass(frozen=True)
class Job:
    """A request that was checked."""

    request: ChatRequest
    thread: str
    begun: bool
    """Whether the thread was there before."""


class Service:
    """The runs of one server. Its state is in the checkpoint store, which several servers may share.

    Args:
        options: The server's.
        saver: Where threads are kept.
    """

    def __init__(self, options: Options, saver: BaseCheckpointSaver[str]) -> None:
        self.options = options
        self.saver = saver
        self.admission = Admission(options.runs, options.queue)
        self.metrics = Metrics(self.admission)
        self._arrivals = count(1)
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._stopped = False

    @classmethod
    @asynccontextmanager
    async def opened(cls, options: Options) -> AsyncIterator[Service]:
        """Open the checkpoint store, and stop the runs in the end."""
        async with open_checkpoints(in_thread=options.in_thread) as saver:
            service = cls(options, saver)
            async with drain.on_drain(service.admission.close):
                try:
                    yield service
                finally:
                    await service.stop()

    @property
    def stopping(self) -> bool:
        """Whether no new runs are admitted."""
        return self._stopped or drain.draining()

    async def prepare(self, request: ChatRequest) -> Job:
        """Check everything that can be checked before the run.

        Raises:
            ApiError: The queue is full, or the thread is another request's.
            InputError, StoreError: Settings, index or thread can't be used.
        """
        self.admission.check()
        begun = await self._begun(request)
        if not begun:
            await asyncio.to_thread(check_run, request.context)
        return Job(request, request.thread or new_thread(request.context), begun)

    async def _begun(self, request: ChatRequest) -> bool:
        """Whether the request's thread is there.

        Raises:
            ApiError: It is another request's.
            StoreError: It can't be read.
        """
        if request.thread is None or await self.saver.aget_tuple(config_of(request.thread)) is None:
            return False
        if (await read_thread(request.thread, self.saver)).question_id != request.id:
            raise ApiError(
                409,
                f"thread {request.thread} belongs to another request: repeat that one, or send none",
                code="thread",
                param=THREAD,
            )
        return True

    def start(
        self,
        job: Job,
        on_event: Callable[[Event], None] | None = None,
        on_token: Callable[[Token], None] | None = None,
    ) -> asyncio.Task[Answer]:
        """Start a run, or queue it. Cancelling the task cancels the run, which can be resumed.

        The task raises `ApiError`, `InputError` and `StoreError`.
        """
        task = asyncio.create_task(self._answer(job, on_event, on_token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Stop all runs; their requests are answered with an error that says so."""
        self._stopped = True
        self.admission.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer(
        self, job: Job, on_event: Callable[[Event], None] | None, on_token: Callable[[Token], None] | None
    ) -> Answer:
        request = job.request
        priority.set(next(self._arrivals))
        try:
            async with self.admission.place():
                began = time.monotonic()
                # A request that was here twice may have begun the thread while this one waited.
                if job.begun or await self._begun(request):
                    calls = []
                    result = await resume(job.thread, self.saver, None, on_event, on_token=on_token)
                else:
                    question = await stand_alone(request.question, request.turns, request.context.model)
                    calls = question.calls
                    run = Run.of(question.text, request.context, self.saver, thread=job.thread, question_id=request.id)
                    result = await run.start(None, on_event, on_token)
                self.metrics.ended(result, time.monotonic() - began)
        except asyncio.CancelledError:
            self.metrics.cancelled(request.context.method)
            if self.stopping:
                error = stopping()
                error.headers = {**error.headers, THREAD: job.thread}
                raise error from None
            raise
        return Answer(_succeeded(result), await asyncio.to_thread(sources_of, result, request.context.index), calls)


@lru_cache
def final_nodes(method: str) -> frozenset[str]:
    """Nodes of a method after which its graph always ends: what their model writes is the answer."""
    edges = load(method).get_graph().edges
    after: dict[str, set[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, set()).add(edge.target)
    return frozenset(node for node, targets in after.items() if targets == {"__end__"})


def _succeeded(result: Result) -> Result:
    """The result of a run that did not fail.

    Raises:
        ApiError: It failed.
    """
    if result["status"] == "failed":
        raise of_failure(result["error"], result["thread"])
    return result
