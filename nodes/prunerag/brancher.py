"""Brancher: grow the tree by what the decomposer proposed, and prune what would repeat itself (PruneRAG, Sec. 3.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.steps import logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import PruneState, TreeNode
from nodes.prunerag.tree import children, new_node, pruned_step, twin

__all__ = ["brancher"]


async def brancher(state: PruneState, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Make the children of a level: a query node for each sub-query, one entity node for the entities.

    A sub-query that an ancestor or a sibling asks already is not expanded: it becomes an entity node.
    """
    context = runtime.context
    tree = list(state["tree"])
    changed: list[TreeNode] = []
    for node in [node for node in state["tree"] if node["id"] in state["frontier"]]:
        if node["verdict"] not in ("split", "abstracted") or children(tree, node):
            continue
        grown = _children(node)
        if not grown:
            changed.append({**node, "verdict": "evidence", "pruned": "nothing usable was proposed"})
        for child in grown:
            tree.append(child)
            changed.append(_without_repeats(tree, child, context))
    cut = [node for node in changed if node["verdict"] == "evidence"]
    return {"tree": changed, **logged([pruned_step(node, state["trajectory"]) for node in cut])}


def _children(node: TreeNode) -> list[TreeNode]:
    if node["verdict"] == "abstracted" and node["branches"]:
        return [new_node(node, 0, node["query"], kind="entity", entities=node["branches"])]
    return [new_node(node, number, query) for number, query in enumerate(node["branches"])]


def _without_repeats(tree: list[TreeNode], child: TreeNode, context: PruneContext) -> TreeNode:
    if child["kind"] == "entity":
        return child
    same = twin(tree, child)
    if same is None:
        return child
    pruned = f"asks the same as {same['id']}"
    if "entity" in context.ablate or "adaptive" in context.ablate:
        return {**child, "verdict": "evidence", "pruned": pruned}
    return {**child, "kind": "entity", "pruned": pruned}
