"""Processing queue: which nodes are next, and what the search budget allows them (PruneRAG, Alg. 1)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.state import Step
from nodes.kit.steps import logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import PruneState, TreeNode
from nodes.prunerag.tree import new_node, pruned_step


async def queue(state: PruneState, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Take the next level of the tree, and begin with the root.

    Searches are reserved for it left to right before the level starts: one for a query node, one an entity for an
    entity node. A node for which none is left becomes evidence without documents.
    """
    context = runtime.context
    tree = state.get("tree", [])
    level = [node for node in tree if node["verdict"] == "open"]
    if not tree:
        level = [new_node(None, 0, state["question"])]
    left = context.max_searches - sum(node["searches"] for node in tree)
    reserved: list[TreeNode] = []
    cut: list[Step] = []
    for node in sorted(level, key=lambda node: node["id"]):
        wanted = len(node["entities"]) if node["kind"] == "entity" else 1
        granted = min(wanted, left)
        left -= granted
        if granted:
            reserved.append({**node, "searches": granted})
        else:
            reserved.append({**node, "verdict": "evidence", "pruned": "the search budget is spent"})
            cut.append(pruned_step(reserved[-1], state["trajectory"]))
    frontier = [node["id"] for node in reserved if node["searches"]]
    return {"tree": reserved, "frontier": frontier, **logged(cut)}
