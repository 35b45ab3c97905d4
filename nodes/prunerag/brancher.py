"""Brancher: grow the tree by what the decomposer proposed, and prune what would repeat itself (PruneRAG, Sec. 3.2)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import Limited
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch, PruneState, TreeNode
from nodes.prunerag.tree import children, distinct, new_node, pruned_step, twin

__all__ = ["brancher", "extractor"]


class Entities(BaseModel):
    """Output of the extractor."""

    entities: list[Annotated[str, Limited(100)]] = Field(max_length=4)


def brancher() -> Node:
    """A node that makes the children of a level: a query node for each sub-query, one entity node for the entities.

    A sub-query that an ancestor or a sibling asks already is not expanded: it becomes an entity node.
    """

    async def brancher(state: PruneState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: PruneContext = runtime.context
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
        return {"tree": changed, "trajectory": [pruned_step(node, "brancher", state["trajectory"]) for node in cut]}

    return brancher


def extractor(prompt: str) -> Node:
    """A node that finds the entities of a query that is not to be expanded.

    Args:
        prompt: Name of the prompt; it is given `query` and `question`.
    """

    async def extractor(state: Branch, runtime: Runtime[Any]) -> dict[str, Any]:
        node = state["node"]
        asked = await ask_model(
            runtime,
            prompt,
            Entities,
            {"query": quoted(node["query"]), "question": quoted(state["question"])},
            at=f"{node['id']}/entities",
        )
        entities = distinct(asked.value.entities if asked.value else [])[: runtime.context.branching]
        problem = asked.problem or ("" if entities else "no entity was found")
        if problem:
            node = {**node, "verdict": "evidence", "pruned": f"{node['pruned']}; {problem}"}
        row = step(
            f"{node['id']}/entities",
            "decompose",
            parent=node["id"],
            question=node["query"],
            answer="\n".join(entities),
            calls=len(asked.calls),
            fallback=problem or asked.cut,
        )
        rows = [row, pruned_step(node, "extractor")] if problem else [row]
        return {"tree": [{**node, "entities": entities}], "trajectory": rows, "ledger": asked.calls}

    return extractor


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
