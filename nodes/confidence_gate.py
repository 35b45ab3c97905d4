"""Confidence gate: accept an answer or send its node back (PruneRAG, Sec. 3.2.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import PruneContext
from nodes.decomposer import gated
from nodes.state import Node, PruneState, Step, TreeNode

__all__ = ["confidence_gate"]


def confidence_gate() -> Node:
    """A node that judges the answers of a level.

    An answer with at least the threshold's confidence ends its branch. Another is rejected: its node is asked again,
    with answering barred, or, on the last level, stays as evidence: its documents go up, its answer does not.
    """

    async def confidence_gate(state: PruneState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: PruneContext = runtime.context
        level = [node for node in state["tree"] if node["id"] in state["frontier"]]
        judged = [_judge(node, context) for node in level if node["verdict"] == "open" and node["kind"] == "query"]
        steps = {step["id"]: step for step in state["trajectory"]}
        verdicts: list[Step] = [{**steps[node["id"]], "verdict": _words(node, context)} for node in judged]
        return {"tree": judged, "trajectory": verdicts}

    return confidence_gate


def _judge(node: TreeNode, context: PruneContext) -> TreeNode:
    if node["answer"] and (not gated(context) or (node["confidence"] or 0.0) >= context.threshold):
        return {**node, "verdict": "accepted", "result": node["answer"]}
    if node["depth"] < context.max_depth:
        return {**node, "verdict": "rejected"}
    return {
        **node,
        "verdict": "evidence",
        "pruned": f"its answer was rejected on the last level ({_why(node, context)})",
    }


def _why(node: TreeNode, context: PruneContext) -> str:
    if not node["answer"]:
        return "empty"
    return f"confidence {node['confidence'] or 0.0:.3f} is below {context.threshold:g}"


def _words(node: TreeNode, context: PruneContext) -> str:
    if node["verdict"] == "evidence":
        return f"pruned: {node['pruned']}"
    return "accepted" if node["verdict"] == "accepted" else f"rejected: {_why(node, context)}"
