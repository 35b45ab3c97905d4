"""Fine-grained retrieval: search for each entity of an entity node (PruneRAG, Sec. 3.2.3)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.passages import interleave
from nodes.kit.rendering import counted
from nodes.kit.search import search
from nodes.kit.steps import logged, step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch


async def entity_retriever(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Search for the entities of one entity node, as many as the budget allows.

    What the searches find is merged rank by rank, without repeats, and cut to the context's top k.
    """
    node = state["node"]
    entities = node["entities"][: node["searches"]]
    queries = {f"{node['id']}/{number}": entity for number, entity in enumerate(entities)}
    found = await search(state, runtime, queries, step=node["id"])
    documents = interleave(found.hits)[: runtime.context.top_k]
    unsearched = node["entities"][node["searches"] :]
    spent = f"the search budget left out {', '.join(unsearched)}" if unsearched else ""
    reasons = "; ".join(filter(None, [node["pruned"], spent]))
    row = step(
        node["id"],
        "retrieve",
        parent=node["parent"],
        question="; ".join(entities),
        answer=counted(len(documents), "passage"),
        verdict=f"pruned: {reasons}" if reasons else "",
        evidence=[ref["id"] for ref in documents],
        searches=len(entities),
    )
    settled = {**node, "documents": documents, "verdict": "evidence"}
    return {"tree": [settled], **logged(row, found)}
