"""Summarizer: an entity node's documents summarized as text (PruneRAG, Sec. 3.3, case iii)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_blocks, plain, quoted
from nodes.kit.steps import logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch


class Summary(BaseModel):
    """Output of the summarizer."""

    summary: Annotated[str, Limited(800)]


async def summarizer(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Summarize an entity node's documents."""
    node = state["node"]
    ids = [ref["id"] for ref in node["documents"]]
    asked = await ask_model(
        runtime,
        "prunerag/summarizer",
        Summary,
        {"query": quoted(node["query"]), "entities": quoted("; ".join(node["entities"]))},
        at=f"{node['id']}/summary",
        items=Items("documents", passage_blocks(await fetch(state, ids))),
    )
    summary = plain(asked.value.summary) if asked.value else ""
    row = asked.step(
        "aggregate",
        parent=node["id"],
        question=node["query"],
        answer=summary,
        evidence=ids,
        instead="only its documents go up",
    )
    return {"tree": [{**node, "result": summary}], **logged(row, asked)}
