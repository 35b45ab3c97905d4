"""Bottom-up backtracing: from the leaves' answers and evidence to the root's answer (PruneRAG, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodes.kit.passages import interleave
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import PruneState, TreeNode
from nodes.prunerag.tree import children, unresolved


def next_to_resolve(tree: Sequence[TreeNode], context: PruneContext) -> list[TreeNode]:
    """The nodes whose results can be worked out now: those with nothing unresolved below them.

    Leaves that are evidence need no call: only their documents go up. With `backtrace="single_call"` the root alone
    does.
    """
    waiting = [node for node in unresolved(tree) if not _is_leaf_evidence(tree, node)]
    if context.backtrace == "single_call":
        return [node for node in waiting if node["id"] == "root"]
    below = {node["parent"] for node in waiting}
    return [node for node in waiting if node["id"] not in below]


def _is_leaf_evidence(tree: Sequence[TreeNode], node: TreeNode) -> bool:
    """Whether only a node's documents go up. Never the root, which has to answer."""
    if node["id"] == "root":
        return False
    if node["kind"] == "entity":
        return not node["documents"]
    return not children(tree, node)


async def backtracer(state: PruneState) -> dict[str, Any]:
    """Where the tasks of a round of backtracing meet; `next_to_resolve` says what comes next."""
    return {}


async def conclude(state: PruneState) -> dict[str, Any]:
    """Make the root's result the answer, and all documents of the tree its evidence."""
    root = next(node for node in state["tree"] if node["id"] == "root")
    answer = root["result"] or ""
    status = "failed" if state.get("error") else "answered" if answer else "unanswerable"
    levels = sorted(state["tree"], key=lambda node: (node["depth"], node["id"]))
    return {"answer": answer, "status": status, "evidence": interleave([node["documents"] for node in levels])}
