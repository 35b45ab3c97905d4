"""Run a question on a checkpointed thread, or resume one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hopgraph.listeners import Listeners, Token
from hopgraph.methods import check_method, load, make_context
from hopgraph.origins import check_thread, config_of, find_origin, new_thread, thread_of
from hopgraph.results import Result
from hopgraph.threads import Thread, changed, read_result, read_thread
from inference.drain import on_drain
from inference.errors import HopgraphError, InputError, StoreError, StoreUnavailable
from inference.settings import get_settings
from nodes.kit.events import Event
from nodes.kit.state import RunError, Step
from stores.checkpoints import only_here

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.types import Command

    from nodes.kit.context import Context

__all__ = ["Run", "ask", "astream", "make_context", "new_thread", "read_thread", "resume", "thread_of"]

_NOTE = re.compile(r"During task with name '([^']+)' and id")


@dataclass(frozen=True)
class Run:
    """One run of a graph on a thread, from the start or the last checkpoint to its end or a failure."""

    thread: Thread
    saver: BaseCheckpointSaver[str]
    given: dict[str, Any] | Command[Any] | None
    """The graph's input; None resumes from the last checkpoint."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Metadata of the checkpoints it writes."""

    @classmethod
    def of(
        cls,
        question: str,
        context: Context,
        saver: BaseCheckpointSaver[str],
        *,
        thread: str,
        question_id: str = "ask",
        contexts: Sequence[Any] | None = None,
        gold: Sequence[Any] | None = None,
        gold_route: str | None = None,
    ) -> Run:
        """A run on a new thread; arguments as for `ask`.

        Raises:
            InputError: The question, the method or the thread's id is invalid.
        """
        from nodes.intake import check_question

        check_method(context.method)
        begun = Thread(check_thread(thread), context, check_question(question), question_id)
        given: dict[str, Any] = {"question": begun.question}
        given |= {"contexts": list(contexts)} if contexts is not None else {}
        given |= {"gold": list(gold)} if gold is not None else {}
        given |= {"gold_route": gold_route} if gold_route is not None else {}
        return cls(begun, saver, given, begun.origin.metadata())

    async def start(
        self,
        on_step: Callable[[Step], None] | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_token: Callable[[Token], None] | None = None,
    ) -> Result:
        """Run the graph, in a span if tracing is on.

        Args:
            on_step: Called with each step of the trajectory as it ends.
            on_event: Called with every event, steps included, as it happens: see `nodes.kit.events`.
            on_token: Called with the pieces of answers as the endpoint streams them, also of intermediate steps.

        Raises:
            InputError: The question or the settings are invalid.
            StoreError: The index or the checkpoints are unusable.
        """
        config: RunnableConfig = {**config_of(self.thread.id), "metadata": dict(self.metadata)}
        hear = Listeners(on_step, on_event, on_token)
        if get_settings().otel == "off":
            return await read_result(self.thread, self.saver, await self._run(config, hear))
        from hopgraph.telemetry import run_span

        thread, resumed = self.thread, not isinstance(self.given, dict)
        with run_span(
            thread.context, thread.id, thread.question, question_id=thread.question_id, resumed=resumed
        ) as span:
            error = await self._run({**config, "callbacks": [span.spans]}, hear)
            result = await read_result(thread, self.saver, error)
            span.ended(result)
        return result

    async def _run(self, config: RunnableConfig, hear: Listeners) -> RunError | None:
        """Run the graph. Returns the error that stopped it, if any; errors of the input and the store are raised."""
        from langgraph.errors import GraphDrained
        from langgraph.runtime import RunControl

        graph = load(self.thread.method, self.saver)
        control = RunControl()
        try:
            async with (
                only_here(self.saver, self.thread.id),
                _nothing_of_refused(graph, config),
                on_drain(control.request_drain),
            ):
                # `sync`: a step's results are on disk before the next step's calls go out.
                stream = graph.astream(
                    cast("Any", self.given),
                    config,
                    context=self.thread.context,
                    stream_mode=hear.modes,
                    durability="sync",
                    subgraphs=True,
                    control=control,
                )
                async for namespace, mode, update in stream:
                    hear(namespace, mode, update)
        except GraphDrained:
            raise asyncio.CancelledError from None
        except (InputError, StoreError):
            raise
        except HopgraphError as problem:
            snapshot = await graph.aget_state(config, subgraphs=True)
            return _error(problem, _noted_node(problem) or _failed_node(snapshot))
        return None


async def ask(
    question: str,
    context: Context,
    saver: BaseCheckpointSaver[str],
    *,
    thread: str,
    question_id: str = "ask",
    contexts: Sequence[Any] | None = None,
    gold: Sequence[Any] | None = None,
    gold_route: str | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Result:
    """Answer a question on a new thread.

    A recoverable failure, such as an endpoint that is down, gives a result with status `failed`; `resume` continues
    from the last checkpoint.

    Args:
        question: The question.
        context: The method's settings; its class says which method.
        saver: Checkpointer of the run.
        thread: Id of the new thread.
        question_id: Id of the question in the result.
        contexts: Passages, or ids of indexed ones, to answer from instead of searching.
        gold: Gold evidence for the oracle conditions.
        gold_route: Gold route for the oracle routers.
        on_step: Called with each step of the trajectory as it ends.
        on_event: Called with every event, steps included, as it happens: see `nodes.kit.events`.

    Raises:
        InputError: The question, the settings or the thread's id is invalid; nothing is stored.
        StoreError: The index can't be used.
    """
    run = Run.of(
        question,
        context,
        saver,
        thread=thread,
        question_id=question_id,
        contexts=contexts,
        gold=gold,
        gold_route=gold_route,
    )
    return await run.start(on_step, on_event)


async def resume(
    thread: str,
    saver: BaseCheckpointSaver[str],
    on_step: Callable[[Step], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
    *,
    decisions: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    on_token: Callable[[Token], None] | None = None,
) -> Result:
    """Resume an interrupted thread; for a finished thread, return its result (idempotent).

    Args:
        thread: Its id.
        saver: Its checkpointer.
        on_step: Called with each step of the trajectory as it ends.
        on_event: Called with every event, as for `ask`.
        decisions: A person's decisions by id of the request: see `nodes.kit.person.decide`. The others keep waiting.
        changes: Settings that are changed from here on: see `changed`. The thread keeps them.
        on_token: As for `Run.start`.

    Raises:
        StoreError: There is no such thread, or its index has changed since.
        InputError: No decision of an id is waiting, or a setting can't be changed.
    """
    from langgraph.types import Command

    found = await read_thread(thread, saver)
    if changes:
        found = changed(found, changes)
    if unknown := sorted((decisions or {}).keys() - {row["id"] for row in found.waiting}):
        known = ", ".join(row["id"] for row in found.waiting)
        raise InputError(f"decision: unknown id {unknown[0]}", hint=f"waiting: {known or 'none'}")
    if found.finished:
        result = await read_result(found, saver)
    else:
        kept = await find_origin(thread, saver)
        metadata = (kept[1] if kept else {}) | (found.origin.metadata() if changes else {})
        given: Any = Command(resume=dict(decisions)) if decisions else None
        result = await Run(found, saver, given, metadata).start(on_step, on_event, on_token)
    if found.changes:
        result["changes"] = found.changes
    return result


async def astream(
    question: str, context: Context, saver: BaseCheckpointSaver[str], *, thread: str, **options: Any
) -> AsyncIterator[Event | Result]:
    """As `ask`, but yields the events as they happen, and the result last.

    Example:
        >>> async for event in astream(question, context, saver, thread=new_thread(context)):
        ...     print(event)
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def run() -> Result:
        try:
            return await ask(question, context, saver, thread=thread, on_event=events.put_nowait, **options)
        finally:
            events.put_nowait(None)

    running = asyncio.create_task(run())
    try:
        while (event := await events.get()) is not None:
            yield event
        yield await running
    finally:
        running.cancel()


@asynccontextmanager
async def _nothing_of_refused(graph: Any, config: RunnableConfig) -> AsyncIterator[None]:
    """Delete the thread of a question that is refused before its first step has completed."""
    try:
        yield
    except StoreUnavailable:
        raise
    except (InputError, StoreError):
        with suppress(HopgraphError):
            if "settings" not in (await graph.aget_state(config)).values:
                await graph.checkpointer.adelete_thread(config["configurable"]["thread_id"])
        raise


def _error(problem: HopgraphError, node: str) -> RunError:
    error = RunError(kind=problem.kind, message=problem.message, node=node)
    error |= {"hint": problem.hint} if problem.hint else {}
    error |= {"permanent": True} if getattr(problem, "permanent", False) else {}
    return error


def _noted_node(problem: Exception) -> str:
    """Name of the innermost node that an exception comes from, by the notes that LangGraph adds; "" without one."""
    from nodes.kit.request import MODEL_CALL

    notes = map(_NOTE.match, getattr(problem, "__notes__", []))
    return next((note[1] for note in notes if note and note[1] != MODEL_CALL), "")


def _failed_node(snapshot: Any) -> str:
    """Name of the innermost failed node in a graph's `StateSnapshot`; "" if none failed."""
    # A failed parallel node may not be marked yet; those that have a result did not fail.
    unfinished = [task for task in snapshot.tasks if task.result is None]
    failed = next((task for task in snapshot.tasks if task.error is not None), next(iter(unfinished), None))
    if failed is None:
        return ""
    return (_failed_node(failed.state) if hasattr(failed.state, "tasks") else "") or failed.name
