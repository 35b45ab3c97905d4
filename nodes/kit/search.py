"""Searches for a node: hits, and an entry in the ledger for every search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from langgraph.runtime import Runtime

from inference.embedded_server import usable_cores
from inference.ledger import Call
from inference.settings import get_settings
from nodes.kit.context import Context, Retriever
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import AskedEvent, FoundEvent, tell
from nodes.kit.passages import fetch, open_run_index, reference
from nodes.kit.place import ledger_entry, node_name, thread_id
from nodes.kit.state import PassageRef
from nodes.kit.tracers import traced_searches
from stores.given import rank_given
from stores.passages import Passage

Result = TypeVar("Result")
_Ranked = list[list[tuple[str, float, str]]]
"""Per query: id, score and `found_by` (of the state's passages) of its hits, best first."""
_THREADS_FOR_SERVERS = 32


@dataclass(frozen=True)
class Found:
    """Results of searches."""

    hits: list[list[PassageRef]]
    """Per query, best first."""
    passages: dict[str, Passage]
    """The passages of all hits, by id."""
    calls: list[Call]


async def search(
    state: Any,
    runtime: Runtime[Any],
    queries: Mapping[str, str],
    *,
    mode: Retriever | None = None,
    top_k: int | None = None,
    step: str = "",
    node: str = "",
) -> Found:
    """Search for several queries concurrently.

    Passages given in the input are searched instead of the index, by BM25; those that share no word with the query come
    last, in the order given.

    Args:
        state: The run's state: `index`, or `given`.
        runtime: The node's runtime.
        queries: Id of the trajectory step -> query.
        mode: Search mode; default: the context's.
        top_k: Hits per query; default: the context's.
        step: The one step of all queries; their keys then only tell them apart.
        node: Name for the ledger; default: the running node's.

    Raises:
        DeadlineError: The node's or the run's time is over; the run can be resumed.
    """
    context: Context = runtime.context
    node, count = node or node_name(), top_k or context.top_k
    started, clock = time.time(), time.perf_counter()
    for key, query in queries.items():
        tell(runtime, AskedEvent(type="asked", step=step or key, node=node, question=query))
    given: list[str] = state["given"]
    how = "given" if given else mode or context.mode
    async with (
        within_deadlines(runtime),
        traced_searches(state, queries, node=node, retriever=how, top_k=count) as reported,
    ):
        if given:
            ranked, found = await _rank_given(state, given, list(queries.values()), count)
        else:

            def run() -> tuple[_Ranked, list[Passage]]:
                from stores.index import reasons

                index = open_run_index(state)
                rows = index.search_many(list(queries.values()), count, mode or context.mode)
                ranked: _Ranked = [
                    [(hit.id, hit.score, why) for hit, why in zip(row, reasons(row), strict=True)] for row in rows
                ]
                return ranked, index.get(list(dict.fromkeys(hit.id for row in rows for hit in row)))

            ranked, found = await in_search_thread(run)
        seconds = time.perf_counter() - clock
        passages = {passage.id: passage for passage in found}
        hits = [[reference(passages[key], score, found_by) for key, score, found_by in row] for row in ranked]
        reported.extend(hits)
    for (key, query), refs in zip(queries.items(), hits, strict=True):
        tell(runtime, FoundEvent(type="found", step=step or key, node=node, question=query, passages=refs))
    return Found(
        hits=hits,
        passages=passages,
        calls=[
            search_call(key, context.method, node, started, seconds, [hit for hit, _, _ in row], step=step)
            for key, row in zip(queries, ranked, strict=True)
        ],
    )


async def _rank_given(
    state: Any, ids: Sequence[str], queries: Sequence[str], count: int
) -> tuple[_Ranked, list[Passage]]:
    passages = await fetch(state, ids)
    rankings = await in_search_thread(lambda: [rank_given(query, passages) for query in queries])
    best = [ranking[:count] for ranking in rankings]
    ranked = [[(passage.id, score, "given") for passage, score in row] for row in best]
    return ranked, [passage for row in best for passage, _ in row]


async def in_search_thread(call: Callable[[], Result]) -> Result:
    """Run a search in the search threads, so that short ones do not queue behind long CPU-bound work."""
    return await asyncio.get_running_loop().run_in_executor(_threads(search_threads()), call)


def search_threads() -> int:
    """Number of concurrent searches."""
    # With a server the work is remote: more concurrent searches than cores.
    return _THREADS_FOR_SERVERS if get_settings().embed_url or get_settings().chroma_url else usable_cores()


@lru_cache(maxsize=2)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "search")


def search_call(
    key: str, method: str, node: str, started: float, seconds: float, found: list[str], *, step: str = ""
) -> Call:
    """The ledger's entry for a search, with the ids of its passages; by default its key is its step."""
    id = f"{thread_id()}.{method}.search.{key}"
    return ledger_entry(id, "search", node=node, step=step or key, started=started, seconds=seconds, found=found)
