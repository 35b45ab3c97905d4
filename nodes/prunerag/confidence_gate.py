"""Confidence gate: accept an answer or send its node back (PruneRAG, Sec. 3.2.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.events import tell_verdicts
from nodes.kit.person import decide, shown
from nodes.kit.state import Step
from nodes.kit.steps import logged, step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.decomposer import gated
from nodes.prunerag.state import Branch, PruneState, TreeNode


async def confidence_gate(state: PruneState, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Judge the answers of a level.

    An answer with at least the threshold's confidence ends its branch. Another is rejected: its node is asked again,
    with answering barred, or, on the last level, stays as evidence: its documents go up, its answer does not.
    """
    context = runtime.context
    level = [node for node in state["tree"] if node["id"] in state["frontier"]]
    judged = [_judge(node, context) for node in level if node["verdict"] == "open" and node["kind"] == "query"]
    decided = [node for node in level if "decided" in node]  # by a person, to whom the gate has sent them
    steps = {step["id"]: step for step in state["trajectory"]}
    verdicts: list[Step] = [{**steps[node["id"]], "verdict": _words(node, context)} for node in judged]
    for node in decided:
        answer = node["answer"] if node["verdict"] == "accepted" else steps[node["id"]]["answer"]
        verdicts.append({**steps[node["id"]], "answer": answer, "verdict": _words(node, context)})
    tell_verdicts(runtime, verdicts[: len(judged)])
    return {"tree": judged, **logged(verdicts)}


def judged(state: PruneState) -> list[TreeNode]:
    """The nodes of the level whose answers the gate has judged and no person yet; an empty answer is none."""
    level = [node for node in state["tree"] if node["id"] in state["frontier"] and node["kind"] == "query"]
    verdicts = ("accepted", "rejected", "evidence")
    return [node for node in level if node["answer"] and node["verdict"] in verdicts and "decided" not in node]


async def human_gate(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Have a person confirm or overrule the gate's verdict about one node's answer, or write another."""
    context = runtime.context
    node = state["node"]
    accepted = node["verdict"] == "accepted"
    confidence = "" if node["confidence"] is None else f": confidence {node['confidence']:.3f}, "
    said = decide(
        {
            "question": node["query"],
            "answer": node["answer"],
            "verdict": ("accepted" if accepted else "rejected")
            + (f"{confidence}threshold {context.threshold:g}" if confidence else ""),
            "branch": node["id"],
            "evidence": shown(node["documents"]),
        },
        {"accept": "the answer ends this branch", "reject": "the branch is split further, or is evidence only"},
        "accept" if accepted else "reject",
        own_answer=True,
    )
    if said.decision == "accept":
        answer = said.answer or node["answer"]
        node = {**node, "verdict": "accepted", "answer": answer, "result": answer, "pruned": ""}
    elif node["depth"] < context.max_depth:
        node = {**node, "verdict": "rejected", "result": None}
    else:
        pruned = "a person rejected its answer on the last level"
        node = {**node, "verdict": "evidence", "result": None, "pruned": pruned}
    row = step(
        f"{node['id']}/person",
        "verify",
        parent=node["id"],
        question=node["query"],
        answer=node["answer"] if said.decision == "accept" else "",
        verdict="accepted by a person" if said.decision == "accept" else "rejected by a person",
    )
    return {"tree": [{**node, "decided": said.decision}], **logged(row)}


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
    if decision := node.get("decided"):
        return {"accept": "accepted by a person", "reject": "rejected by a person"}[decision]
    return "accepted" if node["verdict"] == "accepted" else f"rejected: {_why(node, context)}"
