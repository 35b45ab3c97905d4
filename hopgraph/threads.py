"""Threads read from their checkpoints: settings, state and result; and changes of settings on resuming."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hopgraph.methods import METHODS, context_class, load, make_context
from hopgraph.origins import Origin, check_thread, config_of, find_origin
from hopgraph.results import Change, EvidencePassage, Result, Waiting, result_of
from inference.errors import InputError, StoreError
from nodes.kit.state import RunError, merge_by_id

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from nodes.kit.context import Context


@dataclass(frozen=True)
class Thread:
    """A thread: its settings and its progress."""

    id: str
    context: Context
    question: str
    question_id: str = "ask"
    finished: bool = False
    waiting: list[Waiting] = field(default_factory=list)
    """Pending decisions."""
    changes: list[Change] = field(default_factory=list)
    """Settings changed on resuming."""

    @property
    def method(self) -> str:
        """Method id."""
        return self.context.method

    @property
    def origin(self) -> Origin:
        """Its origin, as stored in its checkpoints."""
        settings = self.context.model_dump(mode="json", exclude_unset=True)
        return Origin(self.method, self.question_id, self.question, settings, self.changes)


async def read_thread(thread: str, saver: BaseCheckpointSaver[str]) -> Thread:
    """Read a thread's settings and progress.

    Raises:
        StoreError: The thread is unknown, or was not written by Hopgraph.
    """
    config = config_of(check_thread(thread))
    latest = await saver.aget_tuple(config)
    if latest is None:
        raise StoreError(
            f"unknown thread {thread}",
            hint="`hopgraph list threads` lists those of `hopgraph ask`; "
            f"for a thread of an evaluation: `hopgraph trace {thread} --run DIR`",
        )
    kept = await find_origin(thread, saver)
    origin = kept[0] if kept else None
    foreign = StoreError(f"thread {thread} was not written by hopgraph, or is damaged", hint="start a new run")
    if origin is None or origin.method not in METHODS:
        raise foreign
    state = await load(origin.method, saver).aget_state(config)
    cls = context_class(origin.method)
    given = state.values.get("settings") if origin.context is None else origin.context
    # A run keeps the defaults it was begun with, whichever model answers now.
    usual = {name: cls.model_fields[name].default for name in cls.of_embedded()}
    if given is None:  # LangGraph's server: until the first node has completed, only the metadata have the settings
        usual, given = {}, {name: value for name, value in (latest.metadata or {}).items() if name in cls.model_fields}
    started = latest.checkpoint["channel_values"].get("__start__")
    values = started if isinstance(started, dict) else state.values
    question = origin.question or str(values.get("question", ""))
    try:
        context = make_context(origin.method, {**usual, **given})
    except (InputError, ValueError, TypeError):
        raise foreign from None
    # Not `next`, which omits tasks whose writes are stored: a kill may come before their step is committed.
    return Thread(thread, context, question, origin.id, not state.tasks, _waiting(state), origin.changes)


async def read_result(thread: Thread, saver: BaseCheckpointSaver[str], error: RunError | None = None) -> Result:
    """The result of a thread in its current state.

    Args:
        thread: The thread.
        saver: Where it is kept.
        error: Why it did not finish, if it failed.

    Raises:
        StoreError: Its state can't be read.
    """
    snapshot = await load(thread.method, saver).aget_state(config_of(thread.id), subgraphs=True)
    waiting = _waiting(snapshot)
    if waiting and error is None:
        error = RunError(kind="review", message="waiting for a person's decision", node=waiting[0]["node"])
    with readable(thread.id):
        result = result_of(
            values_of(snapshot),
            id=thread.question_id,
            method=thread.method,
            question=thread.question,
            thread=thread.id,
            error=error,
        )
    if waiting:
        result["waiting"] = waiting
    return result


def changed(found: Thread, values: Mapping[str, Any]) -> Thread:
    """A thread with other settings from here on; only those of `Context.may_change` may change.

    Raises:
        InputError: It has ended, or a setting is unknown, wrong or fixed for the run.
    """
    before = found.context.model_dump(mode="json")
    context = make_context(found.method, {**found.context.model_dump(mode="json", exclude_unset=True), **values})
    after = context.model_dump(mode="json")
    differing = {name: after[name] for name in values if after[name] != before[name]}
    if not differing:
        return found
    if found.finished:
        raise InputError(
            f"{next(iter(differing))}: thread {found.id} has ended, so no setting can change",
            hint="start a new run with the other setting",
        )
    if fixed := sorted(differing.keys() - context.may_change):
        raise InputError(
            f"{fixed[0]}: can't change during a run: its earlier steps used the old value",
            hint=f"settings that can: {', '.join(sorted(context.may_change))}; for others start a new run",
        )
    change = Change(at=datetime.now(UTC).isoformat(timespec="seconds"), settings=differing)
    return replace(found, context=context, changes=[*found.changes, change])


async def evidence_passages(found: Thread, saver: BaseCheckpointSaver[str]) -> list[EvidencePassage]:
    """The final evidence passages of a thread, best first; the text is "" if it is no longer available."""
    from nodes.kit.passages import find

    state = (await load(found.method, saver).aget_state(config_of(found.id))).values
    refs = state.get("evidence", [])
    texts = await asyncio.to_thread(find, found.context.index, [ref["id"] for ref in refs])
    return [
        EvidencePassage(
            id=ref["id"],
            title=ref["title"],
            text=texts[ref["id"]].text if ref["id"] in texts else "",
            score=ref["score"],
            found_by=ref["found_by"],
            page=texts[ref["id"]].page if ref["id"] in texts else ref.get("page", ""),
            headings=list(texts[ref["id"]].headings) if ref["id"] in texts else [],
        )
        for ref in refs
    ]


def values_of(snapshot: Any) -> dict[str, Any]:
    """A run's state from its `StateSnapshot`, with steps and calls of interrupted subgraphs."""
    values = dict(snapshot.values)
    for task in snapshot.tasks:
        if hasattr(task.state, "tasks"):
            inner = values_of(task.state)
            values["trajectory"] = merge_by_id(values.get("trajectory", []), inner.get("trajectory", []))
            values["ledger"] = merge_by_id(values.get("ledger", []), inner.get("ledger", []))
    return values


def _waiting(snapshot: Any) -> list[Waiting]:
    """The decisions that a run waits for, from its `StateSnapshot`."""
    return [
        Waiting(id=row.id, node=task.name, about=dict(row.value))
        for task in snapshot.tasks
        for row in task.interrupts
        if isinstance(row.value, dict)
    ]


@contextmanager
def readable(thread: str) -> Iterator[None]:
    """Convert errors of reading a run's state, which may be edited, damaged or of another version.

    Raises:
        StoreError: The state is malformed.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise StoreError(
            f"thread {thread}: its state can't be read ({type(problem).__name__}: {problem})",
            hint="start a new run",
        ) from problem
