"""CompactRAG's offline stage: read an index into its knowledge base of question-answer pairs, once (Sec. 3.1)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopgraph.knowledge import parts
from hopgraph.knowledge.report import Report, left, report_of
from hopgraph.methods import load
from hopgraph.origins import thread_of
from hopgraph.workers import run_workers
from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Vectors
from inference.endpoints import calls_at_once
from inference.errors import DeadlineError, EndpointError, InputError, PromptTooLong
from inference.ledger import Call, cost_of
from inference.settings import Settings, get_settings
from nodes.compactrag.context import ReaderContext
from stores.checkpoints import kept_threads, open_checkpoints
from stores.index import Index, open_index
from stores.knowledge_base import writing
from stores.manifest import index_folder
from stores.pairs import Pairs
from stores.passages import content_id
from stores.readings import Pair, Reading, pair_text

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

REFUSALS = 3
"""Consecutive passages refused by the endpoint after which reading stops."""


@dataclass
class Outcome:
    """What became of the passages of a reading."""

    done: list[Reading] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Passages left unread, with the kind of error."""


@dataclass(frozen=True)
class Passages:
    """Passages to read, and where their readings go."""

    index: Index
    base: str
    """Id of the knowledge base."""
    waiting: Sequence[str]
    """Ids."""
    checkpoints: Path
    keep: Callable[[Reading, Sequence[Pair], Vectors], None]
    """Commits a reading; called in a thread of its own."""


Readers = Callable[[ReaderContext, Index, Pairs, Sequence[str], Callable[[Reading], None]], Awaitable[Outcome]]
"""Reads passages into a knowledge base, and calls a function with each reading as it ends."""


@dataclass
class _Run:
    """One reading of many passages."""

    context: ReaderContext
    passages: Passages
    graph: CompiledStateGraph[Any, Any, Any, Any]
    saver: BaseCheckpointSaver[str]
    on_reading: Callable[[Reading], None]
    outcome: Outcome = field(default_factory=Outcome)
    in_a_row: int = 0


async def read_index(
    context: ReaderContext,
    *,
    ids: Sequence[str] | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    anew: bool = False,
    on_start: Callable[[int], None] | None = None,
    on_reading: Callable[[Reading], None] | None = None,
    readers: Readers | None = None,
) -> Report:
    """Read the unread passages of an index, as many concurrently as the endpoint allows.

    Each passage is stored when finished: after an interruption the next call resumes there without repeating a
    finished model call.

    Args:
        context: The reader's settings, `index` among them.
        ids: Only these passages.
        limit: Maximum number of passages to read now.
        retry_failed: Also retry passages whose output could not be used.
        anew: Discard all earlier readings.
        on_start: Called with the number of passages to read.
        on_reading: Called with each reading as it ends.
        readers: Who reads, such as a cluster; default: this process.

    Raises:
        InputError: No index is given, a passage is not in it, or an unfinished reading of a cluster must be resumed
            there.
        StoreError: The index or the knowledge base can't be used, or another process is reading.
        EndpointError: The endpoint can't be used; what was read is kept.
    """
    if not context.index:
        raise InputError("index is missing", hint="hopgraph read --index NAME")
    index = open_index(context.index)
    started = time.perf_counter()
    with writing(index) as base:
        if anew:
            base.clear()
            parts.remove_parts(index.name)
        base.rebase(index, get_encoder())
        parts.collect(index, base)
        waiting = _waiting(index, base, ids, retry_failed)[:limit]
        if on_start is not None:
            on_start(len(waiting))
        outcome = await (readers or _read_here)(context, index, base, waiting, on_reading or (lambda reading: None))
        if not left(index, base) or not parts.any_interrupted(index.name):
            parts.remove_parts(index.name)
        made = report_of(index, base, outcome.refused)
    calls = [reading.calls for reading in outcome.done]
    tokens = [reading.prompt_tokens + reading.completion_tokens for reading in outcome.done]
    seconds = round(time.perf_counter() - started, 2)
    now = {"passages": len(outcome.done), "calls": sum(calls), "tokens": sum(tokens), "seconds": seconds}
    return Report(**{**made.__dict__, "now": now})


def _waiting(index: Index, base: Pairs, ids: Sequence[str] | None, retry_failed: bool) -> list[str]:
    """Passages to be read, in the order of the index."""
    known = [passage.id for chunk in index.passages() for passage in chunk]
    if unknown := set(ids or ()) - set(known):
        raise InputError(
            f"index {index.name!r} has no passage {', '.join(sorted(unknown)[:10])}", hint="`hopgraph search` lists ids"
        )
    done = base.done() - (base.failed() if retry_failed else set())
    wanted = set(known) if ids is None else set(ids)
    return [key for key in known if key in wanted and key not in done]


async def _read_here(
    context: ReaderContext,
    index: Index,
    base: Pairs,
    waiting: Sequence[str],
    on_reading: Callable[[Reading], None],
) -> Outcome:
    if waiting and (open_parts := parts.open_parts(index.name)):
        raise InputError(
            f"the reading of index {index.name!r} was started with --ray, in {len(open_parts)} parts",
            hint="give --ray again to resume it; --ray local uses this machine alone",
        )
    place = index_folder(index.name) / "pairs.running.sqlite"
    outcome = await read_passages(context, Passages(index, base.id, waiting, place, base.add), on_reading)
    if not left(index, base):
        remove_checkpoints(place)
    return outcome


def remove_checkpoints(place: Path) -> None:
    """Delete a checkpoint store."""
    for path in place.parent.glob(f"{place.name}*"):
        path.unlink()


async def read_passages(context: ReaderContext, passages: Passages, on_reading: Callable[[Reading], None]) -> Outcome:
    """Read passages concurrently, or resume them. Errors as for `read_index`.

    Interrupted passages keep their checkpoints, also those that are not to be read now; without any, the store is
    deleted.
    """
    async with open_checkpoints(str(passages.checkpoints)) as saver:
        run = _Run(context, passages, load(context.method, saver), saver, on_reading)
        queue = deque(passages.waiting)
        try:
            await run_workers(
                lambda: _read_next(run, queue.popleft()), lambda: bool(queue), lambda: at_a_time(get_settings())
            )
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        _, interrupted = await kept_threads(saver, 1)
    if not interrupted:
        remove_checkpoints(passages.checkpoints)
    return run.outcome


def at_a_time(settings: Settings) -> int:
    """Passages read concurrently, by the endpoint's limit."""
    limit = calls_at_once()
    if settings.llm_concurrency == "auto":
        return 2 * limit  # otherwise passages being stored keep the calls below the limit, which then never rises
    return limit if settings.llm_url else min(limit, settings.embedded_parallel)


async def _read_next(run: _Run, key: str) -> None:
    try:
        reading = await _read_passage(run, key)
    except PromptTooLong as error:
        passage = run.passages.index.get([key])[0]
        content = content_id(passage.title, passage.text)
        reading = Reading(key, content, cause=error.kind, message=error.message)
        await asyncio.to_thread(run.passages.keep, reading, [], get_encoder().encode_passages([]))
    except DeadlineError as error:
        # Concerns this passage only; an unreachable endpoint is another error.
        run.outcome.refused[key] = error.kind
        return
    except EndpointError as error:
        run.outcome.refused[key] = error.kind
        run.in_a_row += 1
        if run.in_a_row >= REFUSALS or not run.outcome.done:
            raise EndpointError(
                f"{error.message} (reading stopped; the {len(run.outcome.done):,} passages read are kept)",
                hint=f"{error.hint}; then run the same command again to resume".lstrip("; "),
            ) from error
        return
    run.in_a_row = 0
    run.outcome.done.append(reading)
    run.on_reading(reading)


async def _read_passage(run: _Run, key: str) -> Reading:
    """Run or resume the reader's graph on one passage, and store its pairs and reading."""
    thread = thread_of(f"{run.passages.base}.{run.passages.index.hash}", run.context, key)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    state: dict[str, Any] = {}
    begun = await run.saver.aget_tuple(config) is not None
    if begun:
        snapshot = await run.graph.aget_state(config)
        # Not `next`, which omits tasks whose writes are stored: a kill may come before their step is committed.
        state = {} if snapshot.tasks else snapshot.values
    if not state:
        given = None if begun else {"passage": key}
        # `sync`: a reply is on disk before the next call goes out.
        state = await run.graph.ainvoke(given, config, context=run.context, durability="sync")
    passage = run.passages.index.get([key])[0]
    pairs = [
        Pair(key, number, pair["question"], pair["answer"], pair["verbatim"], pair["coverage"])
        for number, pair in enumerate(state["pairs"], start=1)
    ]
    reading = _reading(key, content_id(passage.title, passage.text), state)

    def keep() -> None:
        run.passages.keep(reading, pairs, get_encoder().encode_passages([pair_text(pair) for pair in pairs]))

    await asyncio.to_thread(keep)
    await run.saver.adelete_thread(thread)
    return reading


def _reading(key: str, content: str, state: dict[str, Any]) -> Reading:
    calls: list[Call] = [call for call in state["ledger"] if call["kind"] == "model"]
    coverage = [call for call in calls if call["node"] == "coverage_repairer"]
    cost, extra = cost_of(calls), cost_of(coverage)
    error = state["error"]
    dropped = Counter(str(pair["cause"]) for pair in state["dropped"])
    dropped["flagged"] = sum(not pair["verbatim"] for pair in state["pairs"])
    return Reading(
        passage=key,
        content=content,
        cause=error["kind"] if error else "",
        message=error["message"] if error else "",
        entities=len(state["entities"]),
        covered=len(state["entities"]) - len(state["uncovered"]),
        dropped={cause: count for cause, count in sorted(dropped.items()) if count},
        calls=cost["calls"],
        repairs=cost["repairs"],
        prompt_tokens=cost["prompt_tokens"],
        completion_tokens=cost["completion_tokens"],
        coverage_calls=extra["calls"],
        coverage_prompt_tokens=extra["prompt_tokens"],
        coverage_completion_tokens=extra["completion_tokens"],
        seconds=cost["seconds"],
        model=calls[0]["model"] if calls else "",
        prompts={call["prompt"]: call["prompt_hash"] for call in calls},
    )
