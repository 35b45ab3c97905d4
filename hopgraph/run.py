"""Run a question on a checkpointed thread, resume a thread, or show one that has ended."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from hopgraph.methods import METHODS, check_method, context_class, load, make_context
from hopgraph.results import Change, EvidencePassage, Result, Waiting, result_of
from inference.drain import on_drain
from inference.errors import HopgraphError, InputError, StoreError
from inference.settings import get_settings
from nodes.kit.events import Event, StepEvent
from nodes.kit.state import RunError, Step, merge_by_id
from stores.checkpoints import only_here

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.types import StreamMode

    from nodes.kit.context import Context

__all__ = [
    "About",
    "Thread",
    "about_of",
    "ask",
    "astream",
    "changed",
    "evidence_passages",
    "failed",
    "find_about",
    "make_context",
    "new_thread",
    "read_thread",
    "readable",
    "resume",
    "thread_of",
    "values_of",
]

NAMESPACE = uuid.UUID("6f0c1a52-43f1-5a0e-9d3c-2f6d8b7e4a10")
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_METADATA = "hopgraph"
_SERVERS = ("graph_id", "assistant_id", "run_id")
"""What the local server knows a thread by, and by what it sees that a run it takes up again has gone on."""


@dataclass(frozen=True)
class Thread:
    """What a thread was started with."""

    id: str
    method: str
    question_id: str
    question: str
    context: Context
    finished: bool
    waiting: list[Waiting]
    """What a person has to decide before it goes on."""
    changes: list[Change]
    """Settings that were changed when it was resumed."""


@dataclass(frozen=True)
class About:
    """What the checkpoints of a thread say it was started with."""

    method: str
    id: str
    """Question id."""
    question: str
    """"" where only the run's state has it."""
    context: dict[str, Any] | None
    """Settings as they were given; None where only the run's state has them."""
    changes: list[Change] = field(default_factory=list)


def about_of(metadata: Mapping[str, Any]) -> About | None:
    """What a checkpoint's metadata say of its thread, written by `ask` or by the local server; None: nothing of use."""
    try:
        about = json.loads(metadata[_METADATA])
        changes = [Change(at=str(row["at"]), settings=dict(row["settings"])) for row in about.get("changes", [])]
        return About(str(about["method"]), str(about["id"]), str(about["question"]), dict(about["context"]), changes)
    except (KeyError, ValueError, TypeError, AttributeError):
        graph = metadata.get("graph_id")
        return About(graph, "ask", "", None) if isinstance(graph, str) else None


async def find_about(thread: str, saver: BaseCheckpointSaver[str]) -> tuple[About, dict[str, Any]] | None:
    """What the newest checkpoint of a thread that says so says of it, and its entries in the metadata.

    A state that was edited in Studio, or a run of an older version, need not say it in the latest one.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    latest = await saver.aget_tuple(config)
    found = _about_and_entries(latest) if latest else None
    if latest is None or found is not None:
        return found
    async for row in saver.alist(config):
        if (found := _about_and_entries(row)) is not None:
            break
    return found


def _about_and_entries(row: CheckpointTuple) -> tuple[About, dict[str, Any]] | None:
    metadata = cast("dict[str, Any]", row.metadata)
    about = about_of(metadata)
    entries = {name: value for name in (_METADATA, *_SERVERS) if isinstance(value := metadata.get(name), str)}
    return None if about is None else (about, entries)


def thread_of(run: str, context: Context, question_id: str) -> str:
    """Id of a question's thread in a run: the same run, method, question and settings give the same thread."""
    settings = hashlib.sha256(context.model_dump_json().encode()).hexdigest()
    return str(uuid.uuid5(NAMESPACE, "\0".join([run, context.method, question_id, settings])))


def new_thread(context: Context) -> str:
    """Id of a thread that nothing was run on yet."""
    return thread_of(str(uuid.uuid4()), context, "ask")


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

    A failure that the run can recover from later (an endpoint that is down) is a result, too: its status is `failed`,
    and `resume` goes on from where it stopped.

    Args:
        question: The question.
        context: The method's settings; its class says which method.
        saver: Where the run's steps are kept.
        thread: Id of the new thread.
        question_id: Id of the question in the result.
        contexts: Passages, or ids of indexed ones, to answer from instead of searching.
        gold: Gold evidence for the oracle conditions.
        gold_route: Gold route for the oracle routers.
        on_step: Called with each step of the trajectory as it ends.
        on_event: Called with all that happens, steps among it, as it happens: see `nodes.events`.

    Raises:
        InputError: The question, the settings or the thread's id are wrong; nothing was kept.
        StoreError: The index can't be used.
    """
    from nodes.intake import check_question

    check_method(context.method)
    check_thread(thread)
    question = check_question(question)
    given: dict[str, Any] = {"question": question}
    given |= {"contexts": list(contexts)} if contexts is not None else {}
    given |= {"gold": list(gold)} if gold is not None else {}
    given |= {"gold_route": gold_route} if gold_route is not None else {}
    about = _about(Thread(thread, context.method, question_id, question, context, False, [], []))
    config: RunnableConfig = {"configurable": {"thread_id": thread}, "metadata": {_METADATA: about}}
    return await _run(given, context, saver, config, question_id, question, on_step, on_event)


async def resume(
    thread: str,
    saver: BaseCheckpointSaver[str],
    on_step: Callable[[Step], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
    *,
    decisions: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Result:
    """Go on with a thread that was cut off; a thread that has ended is shown and not run again.

    Args:
        thread: Its id.
        saver: Where it is kept.
        on_step: Called with each step of the trajectory as it ends.
        decisions: What a person decided, by the id of what was waiting: see `nodes.person.decide`. Others wait on.
        changes: Settings that are changed from here on: see `changed`. The thread keeps them.

    Raises:
        StoreError: There is no such thread, or its index has changed since.
        InputError: Nothing of an id waits for a decision, or a setting can't be changed.
    """
    from langgraph.types import Command

    found = await read_thread(thread, saver)
    if changes:
        found = changed(found, changes)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    if unknown := sorted((decisions or {}).keys() - {row["id"] for row in found.waiting}):
        known = ", ".join(row["id"] for row in found.waiting)
        raise InputError(f"decision: nothing waits as {unknown[0]}", hint=f"waiting: {known or 'nothing'}")
    if found.finished:
        result = await _result(found.context, saver, config, found.question_id, found.question, None)
    else:
        kept = await find_about(thread, saver)
        config["metadata"] = (kept[1] if kept else {}) | ({_METADATA: _about(found)} if changes else {})
        given: Any = Command(resume=dict(decisions)) if decisions else None
        result = await _run(given, found.context, saver, config, found.question_id, found.question, on_step, on_event)
    if found.changes:
        result["changes"] = found.changes
    return result


def changed(found: Thread, values: Mapping[str, Any]) -> Thread:
    """A thread as it goes on with other settings: those of `Context.may_change` may change, and nothing else.

    Raises:
        InputError: It has ended, or a setting is unknown, wrong, or one that has to stay as it is.
    """
    before = found.context.model_dump(mode="json")
    context = make_context(found.method, {**found.context.model_dump(mode="json", exclude_unset=True), **values})
    after = context.model_dump(mode="json")
    differing = {name: after[name] for name in values if after[name] != before[name]}
    if not differing:
        return found
    if found.finished:
        raise InputError(
            f"{next(iter(differing))}: thread {found.id} has ended; nothing can be changed any more",
            hint="ask the question anew with the other setting",
        )
    if fixed := sorted(differing.keys() - context.may_change):
        raise InputError(
            f"{fixed[0]}: can't change in the middle of a run: what it has found so far rests on the old value",
            hint=f"settings that can: {', '.join(sorted(context.may_change))}; for others ask the question anew",
        )
    change = Change(at=datetime.now(UTC).isoformat(timespec="seconds"), settings=differing)
    return replace(found, context=context, changes=[*found.changes, change])


def _about(found: Thread) -> str:
    """What the checkpoints of a thread say it was started with."""
    settings = found.context.model_dump(mode="json", exclude_unset=True)
    about: dict[str, Any] = {"method": found.method, "id": found.question_id, "question": found.question}
    about |= {"context": settings} | ({"changes": found.changes} if found.changes else {})
    return json.dumps(about, ensure_ascii=False)


async def evidence_passages(found: Thread, saver: BaseCheckpointSaver[str]) -> list[EvidencePassage]:
    """The passages that a thread's answer rests on, best first; text that can't be had any more is ""."""
    from nodes.kit.passages import find

    state = (await load(found.method, saver).aget_state({"configurable": {"thread_id": found.id}})).values
    refs = state.get("evidence", [])
    texts = await asyncio.to_thread(find, found.context.index, [ref["id"] for ref in refs])
    return [
        EvidencePassage(
            id=ref["id"],
            title=ref["title"],
            text=texts[ref["id"]].text if ref["id"] in texts else "",
            score=ref["score"],
            found_by=ref["found_by"],
        )
        for ref in refs
    ]


async def astream(
    question: str, context: Context, saver: BaseCheckpointSaver[str], *, thread: str, **options: Any
) -> AsyncIterator[Event | Result]:
    """As `ask`, but yields what happens as it happens, and last of all the result.

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


async def failed(
    thread: str,
    context: Context,
    saver: BaseCheckpointSaver[str],
    question_id: str,
    question: str,
    error: RunError,
) -> Result:
    """The result of a question that `ask` or `resume` raised an error for: as far as it got."""
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    return await _result(context, saver, config, question_id, question, error)


async def read_thread(thread: str, saver: BaseCheckpointSaver[str]) -> Thread:
    """What a thread was started with, and whether it has ended.

    Raises:
        StoreError: There is no such thread, or it was not written by hopgraph.
    """
    config: RunnableConfig = {"configurable": {"thread_id": check_thread(thread)}}
    latest = await saver.aget_tuple(config)
    if latest is None:
        raise StoreError(
            f"no thread {thread}",
            hint="`hopgraph list threads` shows those of `hopgraph ask`; "
            f"one of an evaluation is in the run's folder: `hopgraph trace {thread} --run DIR`",
        )
    kept = await find_about(thread, saver)
    about = kept[0] if kept else None
    strange = StoreError(f"thread {thread} does not say which method it belongs to", hint="start it anew")
    if about is None or about.method not in METHODS:
        raise strange
    state = await load(about.method, saver).aget_state(config)
    given = about.context
    if given is None:  # the server's: until the first node has ended, the settings are in the metadata alone
        fields = context_class(about.method).model_fields
        begun = {name: value for name, value in (latest.metadata or {}).items() if name in fields}
        given = state.values.get("settings", begun)
    started = latest.checkpoint["channel_values"].get("__start__")
    values = started if isinstance(started, dict) else state.values
    question = about.question or str(values.get("question", ""))
    try:
        context = make_context(about.method, given)
    except (InputError, ValueError, TypeError):
        raise strange from None
    # Not `next`: it leaves out tasks whose writes are kept already, and a kill may come before their step is.
    return Thread(thread, context.method, about.id, question, context, not state.tasks, _waiting(state), about.changes)


def check_thread(thread: str) -> str:
    """`thread`, if it can be a thread's id.

    Raises:
        InputError: It can't.
    """
    if not _THREAD.fullmatch(thread):
        raise InputError(
            f"thread: {thread[:120]!r} is not a thread id", hint="letters, digits, '.', '_' and '-', at most 100"
        )
    return thread


@contextmanager
def readable(thread: str) -> Iterator[None]:
    """For what reads a run's state: somebody may have edited it, or the file is damaged, or of another version.

    Raises:
        StoreError: It is not as it should be.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise StoreError(
            f"thread {thread}: its state can't be read ({type(problem).__name__}: {problem})",
            hint="ask the question anew",
        ) from problem


async def _run(
    given: Any,
    context: Context,
    saver: BaseCheckpointSaver[str],
    config: RunnableConfig,
    question_id: str,
    question: str,
    on_step: Callable[[Step], None] | None,
    on_event: Callable[[Event], None] | None,
) -> Result:
    """Run a graph, as a span where that is asked for."""
    if get_settings().otel == "off":
        return await _run_graph(given, context, saver, config, question_id, question, on_step, on_event)
    from hopgraph.telemetry import run_span

    thread = str(config["configurable"]["thread_id"])
    resumed = not isinstance(given, dict)
    with run_span(context, thread, question, question_id=question_id, resumed=resumed) as span:
        config = {**config, "callbacks": [span.spans]}
        result = await _run_graph(given, context, saver, config, question_id, question, on_step, on_event)
        span.ended(result)
    return result


async def _run_graph(
    given: Any,
    context: Context,
    saver: BaseCheckpointSaver[str],
    config: RunnableConfig,
    question_id: str,
    question: str,
    on_step: Callable[[Step], None] | None,
    on_event: Callable[[Event], None] | None,
) -> Result:
    from langgraph.errors import GraphDrained
    from langgraph.runtime import RunControl

    graph = load(context.method, saver)
    error: RunError | None = None
    control = RunControl()
    thread = str(config["configurable"]["thread_id"])
    # What nobody listens to is not sent: each event wakes the event loop.
    heard: list[StreamMode] = ["updates"] if on_step or on_event else []
    heard += ["custom"] if on_event else []
    try:
        async with only_here(saver, thread), _nothing_of_refused(graph, config), on_drain(control.request_drain):
            # `sync`: a step's results are on disk before the next step's calls go out.
            stream = graph.astream(
                given,
                config,
                context=context,
                stream_mode=heard,
                durability="sync",
                subgraphs=True,
                control=control,
            )
            reported: dict[str, Step] = {}
            async for _, mode, update in stream:
                if mode == "custom" and on_event is not None:
                    on_event(cast("Event", update))
                for row in _steps(update) if mode == "updates" else ():
                    # A subgraph's steps come a second time when it ends, as the update of the graph around it.
                    if reported.get(row["id"]) != row:
                        reported[row["id"]] = row
                        if on_step is not None:
                            on_step(row)
                        if on_event is not None:
                            on_event(StepEvent(type="step", step=row))
    except GraphDrained:
        raise asyncio.CancelledError from None
    except InputError:
        raise
    except HopgraphError as problem:
        if problem.exit_code == StoreError.exit_code:
            raise
        node = _failed_node(await graph.aget_state(config, subgraphs=True))
        error = RunError(kind=problem.kind, message=problem.message, node=node)
        error |= {"hint": problem.hint} if problem.hint else {}
        error |= {"permanent": True} if getattr(problem, "permanent", False) else {}
    return await _result(context, saver, config, question_id, question, error)


@asynccontextmanager
async def _nothing_of_refused(graph: Any, config: RunnableConfig) -> AsyncIterator[None]:
    """Keep nothing of a question that is refused before the first step has ended: there is nothing to resume."""
    try:
        yield
    except (InputError, StoreError):
        with suppress(HopgraphError):
            if "settings" not in (await graph.aget_state(config)).values:
                await graph.checkpointer.adelete_thread(config["configurable"]["thread_id"])
        raise


def _failed_node(snapshot: Any) -> str:
    """Name of the node that failed, the innermost one, by a graph's `StateSnapshot`; "" if none did."""
    failed = next((task for task in snapshot.tasks if task.error is not None), next(iter(snapshot.tasks), None))
    if failed is None:
        return ""
    return (_failed_node(failed.state) if hasattr(failed.state, "tasks") else "") or failed.name


def values_of(snapshot: Any) -> dict[str, Any]:
    """A run's state by its `StateSnapshot`, with steps and calls of the subgraphs that it was cut off in."""
    values = dict(snapshot.values)
    for task in snapshot.tasks:
        if hasattr(task.state, "tasks"):
            inner = values_of(task.state)
            values["trajectory"] = merge_by_id(values.get("trajectory", []), inner.get("trajectory", []))
            values["ledger"] = merge_by_id(values.get("ledger", []), inner.get("ledger", []))
    return values


def _waiting(snapshot: Any) -> list[Waiting]:
    """What a run waits for a person to decide, by its `StateSnapshot`."""
    return [
        Waiting(id=row.id, node=task.name, about=dict(row.value))
        for task in snapshot.tasks
        for row in task.interrupts
        if isinstance(row.value, dict)
    ]


def _steps(update: Any) -> list[Step]:
    if not isinstance(update, dict):
        return []
    changes = [change.get("trajectory") for change in update.values() if isinstance(change, dict)]
    return [row for rows in changes if isinstance(rows, list) for row in rows]  # intake's is a reset, not a list


async def _result(
    context: Context,
    saver: BaseCheckpointSaver[str],
    config: RunnableConfig,
    question_id: str,
    question: str,
    error: RunError | None,
) -> Result:
    snapshot = await load(context.method, saver).aget_state(config, subgraphs=True)
    waiting = _waiting(snapshot)
    if waiting and error is None:
        error = RunError(kind="review", message="a person has to decide before it goes on", node=waiting[0]["node"])
    thread = str(config["configurable"]["thread_id"])
    with readable(thread):
        result = result_of(
            values_of(snapshot), id=question_id, method=context.method, question=question, thread=thread, error=error
        )
    if waiting:
        result["waiting"] = waiting
    return result
