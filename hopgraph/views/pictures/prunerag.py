"""PruneRAG: the decomposition tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from nodes.kit.context import Context
    from nodes.prunerag.state import TreeNode

_MOODS = {"accepted": "good", "rejected": "bad"}


def picture(state: Mapping[str, Any], context: Context) -> dict[str, Any] | None:
    """The values of `prunerag.html`; None before there is a tree."""
    if not state.get("tree"):
        return None
    return {"threshold": context.threshold_of("confidence_gate"), "root": _tree(state["tree"])}


def _tree(nodes: Sequence[TreeNode]) -> dict[str, Any]:
    below: dict[str, list[TreeNode]] = {}
    for node in sorted(nodes, key=lambda node: node["id"]):
        below.setdefault(node["parent"], []).append(node)

    def branch(node: TreeNode) -> dict[str, Any]:
        entities = node["kind"] == "entity"
        return {
            "title": plain("; ".join(node["entities"]) if entities else node["query"]),
            "kind": "entities" if entities else "query",
            "answer": plain(node["answer"]),
            "result": "" if node["result"] == node["answer"] else plain(node["result"] or ""),
            "confidence": node["confidence"],
            "verdict": node["verdict"],
            "mood": "cut" if node["pruned"] else _MOODS.get(node["verdict"], ""),
            "pruned": plain(node["pruned"]),
            "documents": [plain(ref["title"]) for ref in node["documents"]],
            "below": [branch(child) for child in below.get(node["id"], [])],
        }

    return branch(below[""][0])
