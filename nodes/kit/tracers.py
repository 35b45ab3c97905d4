"""Callbacks that LangGraph does not send: searches, as retriever runs, and failed attempts of model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langgraph.config import get_config

from nodes.kit.state import Hit

FAILED_TRY = "failed try"
Hits = Sequence[Hit]


@asynccontextmanager
async def traced_searches(
    state: Any, queries: Mapping[str, str], *, node: str, retriever: str, top_k: int
) -> AsyncIterator[list[Hits]]:
    """Report the searches of this block to tracers.

    Args:
        state: The run's state: `index`, or `given`.
        queries: Id of the trajectory step -> query.
        node: Name of the node.
        retriever: Search mode.
        top_k: Hits per query.

    Yields:
        A list to fill with the hits of each query.
    """
    found: list[Hits] = []
    manager: Any = get_config().get("callbacks")
    if not getattr(manager, "handlers", None):
        yield found
        return
    from langchain_core.documents import Document

    index = state.get("index")
    about = {
        "hopgraph_node": node,
        "hopgraph_index": index["name"] if index else None,
        "hopgraph_retriever": retriever,
        "hopgraph_top_k": top_k,
    }
    runs = []
    for step, query in queries.items():
        own = manager.copy()
        own.add_metadata(about | {"hopgraph_step": step}, inherit=False)
        runs.append(await own.on_retriever_start(None, query, name="search"))
    try:
        yield found
    except BaseException as error:
        for run in runs:
            await run.on_retriever_error(error)
        raise
    for run, hits in zip(runs, found, strict=True):
        documents = [
            Document(page_content=ref["preview"], id=ref["id"], metadata={"score": ref["score"]}) for ref in hits
        ]
        await run.on_retriever_end(documents)


async def traced_failure(error: Exception) -> None:
    """Report a failed attempt of the running model call to tracers; a retry may follow."""
    manager: Any = get_config().get("callbacks")
    if getattr(manager, "handlers", None) and manager.parent_run_id is not None:
        kind = str(getattr(error, "status", None) or type(error).__name__)
        await manager.on_custom_event(FAILED_TRY, {"error.type": kind}, run_id=manager.parent_run_id)
