"""Searches for a node: hits, and an entry in the ledger for every search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

from langgraph.runtime import Runtime

from inference.embedded_server import usable_cores
from inference.ledger import Call
from inference.rerankers.configured import get_reranker
from inference.settings import get_settings
from nodes.kit.context import Context, Retriever
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import AskedEvent, FoundEvent, tell
from nodes.kit.passages import fetch, open_run_index, reference
from nodes.kit.place import ledger_entry, node_name, thread_id
from nodes.kit.reranking import Ranked, by_cross_encoder, listwise
from nodes.kit.state import PassageRef, Step
from nodes.kit.tracers import traced_searches
from stores.given import rank_given
from stores.index import Hit, reasons
from stores.passages import Passage
from stores.reranking import CANDIDATES, rerank

Result = TypeVar("Result")
_THREADS_FOR_SERVERS = 32


@dataclass(frozen=True)
class Found:
    """Results of searches."""

    hits: list[list[PassageRef]]
    """Per query, best first."""
    passages: dict[str, Passage]
    """The passages of all hits, by id."""
    calls: list[Call]
    steps: list[Step]
    """Steps of the reranking, which `nodes.kit.steps.logged` records."""


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
    depth = count if context.rerank == "off" else CANDIDATES * count
    async with (
        within_deadlines(runtime),
        traced_searches(state, queries, node=node, retriever=how, top_k=count) as reported,
    ):
        if given:
            rows, found = await _rank_given(state, given, list(queries.values()), depth)
        else:

            def run() -> tuple[list[list[Hit]], list[Passage]]:
                index = open_run_index(state)
                rows = index.search_many(list(queries.values()), depth, mode or context.mode, context.where)
                return rows, index.get(list(dict.fromkeys(hit.id for row in rows for hit in row)))

            rows, found = await in_search_thread(run)
        passages = {passage.id: passage for passage in found}
        ranked = await _reranked(runtime, queries, rows, passages, count, step)
        seconds = time.perf_counter() - clock
        hits = [
            [
                reference(passages[hit.id], hit.score if hit.relevance is None else hit.relevance, why)
                for hit, why in zip(row.hits, ["given"] * count if given else reasons(row.hits), strict=False)
            ]
            for row in ranked
        ]
        reported.extend(hits)
    for (key, query), refs in zip(queries.items(), hits, strict=True):
        tell(runtime, FoundEvent(type="found", step=step or key, node=node, question=query, passages=refs))
    calls = [
        search_call(key, context.method, node, started, seconds, [hit.id for hit in row.hits], step=step)
        for key, row in zip(queries, ranked, strict=True)
    ]
    return Found(
        hits=hits,
        passages={ref["id"]: passages[ref["id"]] for row in hits for ref in row},
        calls=calls + [call for row in ranked for call in row.calls],
        steps=[made for row in ranked for made in row.steps],
    )


async def _rank_given(
    state: Any, ids: Sequence[str], queries: Sequence[str], count: int
) -> tuple[list[list[Hit]], list[Passage]]:
    passages = await fetch(state, ids)
    rankings = await in_search_thread(lambda: [rank_given(query, passages) for query in queries])
    rows = [
        [Hit(passage.id, passage.title, score, None, None) for passage, score in ranking[:count]]
        for ranking in rankings
    ]
    return rows, passages


async def _reranked(
    runtime: Runtime[Any],
    queries: Mapping[str, str],
    rows: Sequence[Sequence[Hit]],
    passages: Mapping[str, Passage],
    count: int,
    step: str,
) -> list[Ranked]:
    """The hits of each query, reranked as the context says, and cut to `count`."""
    context: Context = runtime.context
    asked = list(zip(queries.items(), rows, strict=True))
    if context.rerank == "listwise":
        return [
            await listwise(runtime, query, row, passages, count, at=f"{key}/rerank", parent=step or key)
            for (key, query), row in asked
        ]
    if context.rerank == "off":
        return [Ranked(list(row)) for row in rows]
    reranker = await asyncio.to_thread(get_reranker)
    found = await asyncio.gather(
        *(in_search_thread(partial(rerank, query, row, passages, count, reranker)) for (_, query), row in asked)
    )
    return [
        by_cross_encoder(context.method, query, done, len(row), at=f"{key}/rerank", parent=step or key)
        for ((key, query), row), done in zip(asked, found, strict=True)
    ]


async def in_search_thread(call: Callable[[], Result]) -> Result:
    """Run a search in the search threads, so that short ones do not queue behind long CPU-bound work."""
    return await asyncio.get_running_loop().run_in_executor(_threads(search_threads()), call)


def search_threads() -> int:
    """Number of concurrent searches."""
    # With a server the work is remote: more concurrent searches than cores.
    settings = get_settings()
    return _THREADS_FOR_SERVERS if settings.embed_url or settings.chroma_url or settings.rerank_url else usable_cores()


@lru_cache(maxsize=2)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "search")


def search_call(
    key: str, method: str, node: str, started: float, seconds: float, found: list[str], *, step: str = ""
) -> Call:
    """The ledger's entry for a search, with the ids of its passages; by default its key is its step."""
    id = f"{thread_id()}.{method}.search.{key}"
    return ledger_entry(id, "search", node=node, step=step or key, started=started, seconds=seconds, found=found)
