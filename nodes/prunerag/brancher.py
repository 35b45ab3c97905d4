"""Brancher: grow the tree by what the decomposer proposed, and prune what would repeat itself (PruneRAG, Sec. 3.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.state import Step
from nodes.kit.steps import logged, step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import PruneState, TreeNode
from nodes.prunerag.tree import answered, children, new_node, pruned_step, twin


async def brancher(state: PruneState, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Make the children of a level: a query node for each sub-query, one entity node for the entities.

    A sub-query that another node of the tree has answered takes its answer over, without a search or a call (Sec. 4.5).
    One that an ancestor or a sibling asks already is not expanded: it becomes an entity node.
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
    rows = [pruned_step(node, state["trajectory"]) for node in changed if node["verdict"] == "evidence"]
    rows += [_known_step(node) for node in changed if node["verdict"] == "accepted"]
    return {"tree": changed, **logged(rows)}


def _children(node: TreeNode) -> list[TreeNode]:
    if node["verdict"] == "abstracted" and node["branches"]:
        return [new_node(node, 0, node["query"], kind="entity", entities=node["branches"])]
    return [new_node(node, number, query) for number, query in enumerate(node["branches"])]


def _without_repeats(tree: list[TreeNode], child: TreeNode, context: PruneContext) -> TreeNode:
    if child["kind"] == "entity":
        return child
    if "adaptive" not in context.ablate and (known := answered(tree, child)):
        return _taken_over(child, known)
    same = twin(tree, child)
    if same is None:
        return child
    pruned = f"asks the same as {same['id']}"
    if "entity" in context.ablate or "adaptive" in context.ablate:
        return {**child, "verdict": "evidence", "pruned": pruned}
    return {**child, "kind": "entity", "pruned": pruned}


def _taken_over(child: TreeNode, known: TreeNode) -> TreeNode:
    answer, confidence = known["answer"], known["confidence"]
    pruned = f"answered at {known['id']}"
    return {
        **child,
        "verdict": "accepted",
        "answer": answer,
        "result": answer,
        "confidence": confidence,
        "pruned": pruned,
    }


def _known_step(node: TreeNode) -> Step:
    return step(
        node["id"],
        "answer",
        parent=node["parent"],
        question=node["query"],
        answer=node["answer"],
        verdict=node["pruned"],
        score=node["confidence"],
    )
