"""Retriever: search the store for a question and its sub-questions, and merge the hits into one pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.context import Retriever
from nodes.kit.passages import fetch, found_summary, interleave, reference
from nodes.kit.rendering import counted
from nodes.kit.search import search
from nodes.kit.state import Node, PassageRef, State
from nodes.kit.steps import logged, step
from stores.given import PREFIX


def retriever(
    *,
    into: str = "pool",
    queries: Callable[[Any], Sequence[str]] = lambda state: [state["question"]],
    mode: Callable[[Any], Retriever | None] = lambda context: None,
    top_k: Callable[[Any], int] = lambda context: int(context.top_k),
    alone: Callable[[Any], int] | None = None,
    limit: Callable[[Any], int] = lambda context: int(context.top_k),
    at: Callable[[Any], str] | None = None,
    ranks_given: Callable[[Any], bool] = lambda context: False,
    grows: bool = False,
) -> Node:
    """A node that fills a pool of candidates: the passages given with the question, or search results.

    The hits of several queries are merged rank by rank: every query's first hit, then every query's second, and so on;
    a passage found more than once keeps its best place and score.

    Args:
        into: The state's key for the pool.
        queries: What to search for.
        mode: Search mode; default: the context's.
        top_k: Hits per query.
        alone: Hits of a query that is the only one; default: `top_k`.
        limit: Most passages in the pool.
        at: Id of the step if there is one query; by default steps are numbered.
        ranks_given: Whether passages given with the question are searched, too; else all are taken.
        grows: Add the hits to the pool, up to its limit; else they replace it.
    """

    async def retriever(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        context = runtime.context
        if state["given"] and not ranks_given(context):
            return await _given(state, into)
        asked = {
            at(state) if at else f"root/retriever/{number}": query
            for number, query in enumerate(dict.fromkeys(queries(state)), start=1)
        }
        hits_each = alone if alone and len(asked) == 1 else top_k
        found = await search(state, runtime, asked, mode=mode(context), top_k=hits_each(context))
        steps = [
            step(
                step_id,
                "retrieve",
                question=query,
                answer=found_summary(hits),
                evidence=[hit["id"] for hit in hits],
                searches=1,
            )
            for (step_id, query), hits in zip(asked.items(), found.hits, strict=True)
        ]
        pool: dict[str, PassageRef] = {}
        for ref in [*(state[into] if grows else []), *interleave(found.hits)]:
            pool.setdefault(ref["id"], ref)
        return {into: list(pool.values())[: limit(context)], **logged(steps, found)}

    return retriever


async def _given(state: State, into: str) -> dict[str, Any]:
    """The passages given with the question, all of them and in their order."""
    ids = state["given"]
    pool = [reference(passage, 0.0, "given") for passage in await fetch(state, ids)]
    own = sum(key.startswith(PREFIX) for key in ids)
    row = step(
        "root/retriever/1",
        "retrieve",
        question=state["question"],
        answer=f"{counted(len(pool), 'passage')} given with the question"
        + (f", {own} of them not from an index" if own else ""),
        evidence=ids,
    )
    return {into: pool, **logged(row)}
