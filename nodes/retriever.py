"""Retriever: search the store for a question and its sub-questions, and merge what is found into one pool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from inference.ledger import Call
from nodes.model import place, thread_id
from nodes.passages import fetch, open_run_index, reference
from nodes.state import Node, PassageRef, State
from nodes.steps import step
from stores.given import PREFIX

if TYPE_CHECKING:
    from stores.index import Hit

    from nodes.context import Retriever

__all__ = ["retriever"]


def retriever(
    *,
    into: str = "pool",
    queries: Callable[[Any], Sequence[str]] = lambda state: [state["question"]],
    mode: Callable[[Any], Retriever | None] = lambda context: None,
    top_k: Callable[[Any], int] = lambda context: int(context.top_k),
    limit: Callable[[Any], int] = lambda context: int(context.top_k),
) -> Node:
    """A node that fills a pool of candidates: the passages given with the question, or what searches find.

    The hits of several queries are merged rank by rank: every query's first hit, then every query's second, and so on;
    a passage found more than once keeps its best place and score.

    Args:
        into: The state's key for the pool.
        queries: What to search for.
        mode: Search mode, where it is not the context's.
        top_k: Hits a query.
        limit: Passages in the pool at most.
    """

    async def retriever(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        context = runtime.context
        if state.get("contexts"):
            return await _given(state, into)
        asked = list(dict.fromkeys(queries(state)))
        chosen = mode(context) or context.mode
        count = top_k(context)
        started, clock = time.time(), time.perf_counter()

        def search() -> list[list[Hit]]:
            return open_run_index(state).search_many(asked, count, chosen)

        found = await asyncio.to_thread(search)
        seconds = time.perf_counter() - clock
        best: dict[str, Hit] = {}
        for hit in (hit for rank in zip_longest(*found) for hit in rank if hit is not None):
            if hit.id not in best or hit.score > best[hit.id].score:
                best[hit.id] = hit  # keeps the place of the first sight
        chosen_hits = list(best.values())[: limit(context)]
        passages = await fetch(state, [hit.id for hit in chosen_hits])
        pool = [reference(p, hit.score, hit.found_by) for p, hit in zip(passages, chosen_hits, strict=True)]
        steps = [
            step(
                f"root/retriever/{number}",
                "retrieve",
                "retriever",
                question=query,
                answer=f"{len(hits)} passages",
                evidence=[hit.id for hit in hits],
                searches=1,
            )
            for number, (query, hits) in enumerate(zip(asked, found, strict=True), start=1)
        ]
        calls = [_search_call(row["id"], context.method, started, seconds) for row in steps]
        return {into: pool, "trajectory": steps, "ledger": calls}

    return retriever


async def _given(state: State, into: str) -> dict[str, Any]:
    ids = [str(key) for key in state["contexts"]]
    passages = await fetch(state, ids)
    pool: list[PassageRef] = [reference(passage, 0.0, "given") for passage in passages]
    own = sum(key.startswith(PREFIX) for key in ids)
    row = step(
        "root/retriever/1",
        "retrieve",
        "retriever",
        question=state["question"],
        answer=f"{len(pool)} passages given with the question" + (f", {own} of them not from an index" if own else ""),
        evidence=ids,
    )
    return {into: pool, "trajectory": [row]}


def _search_call(step_id: str, method: str, started: float, seconds: float) -> Call:
    superstep, name = place()
    return Call(
        id=f"{thread_id()}.{method}.search.{step_id}",
        kind="search",
        node="retriever",
        step=step_id,
        prompt="",
        prompt_hash="",
        model="",
        prompt_tokens=0,
        completion_tokens=0,
        cached_tokens=0,
        started=round(started, 3),
        seconds=round(seconds, 3),
        finish_reason="",
        cached=False,
        repair=False,
        superstep=superstep,
        task=name,
    )
