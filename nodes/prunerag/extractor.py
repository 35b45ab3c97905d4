"""Extractor: the entities of a sub-query that repeats another, which is not expanded (PruneRAG, Sec. 3.2)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import Limited
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.steps import logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch
from nodes.prunerag.tree import distinct, pruned_step


class Entities(BaseModel):
    """Output of the extractor."""

    entities: list[Annotated[str, Limited(100)]] = Field(max_length=4)


async def extractor(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Find the entities of a query that is not to be expanded. Without any the node is evidence only."""
    node = state["node"]
    values = {"query": quoted(node["query"]), "question": quoted(state["question"])}
    asked = await ask_model(runtime, "prunerag/extractor", Entities, values, at=f"{node['id']}/entities")
    entities = distinct(asked.value.entities if asked.value else [])[: runtime.context.branching]
    row = asked.step(
        "decompose",
        parent=node["id"],
        question=node["query"],
        answer="\n".join(entities),
        problem="" if entities else "no entity was found",
    )
    if entities:
        return {"tree": [{**node, "entities": entities}], **logged(row, asked)}
    pruned = f"{node['pruned']}; {row['fallback']}"
    node = {**node, "verdict": "evidence", "pruned": pruned, "entities": []}
    return {"tree": [node], **logged([row, pruned_step(node)], asked)}
