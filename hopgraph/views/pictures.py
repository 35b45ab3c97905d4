"""Each method's own picture of a run, from its last state: a tree, a plan, a chain, a graph of sub-questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodes.compactrag.dag import literal
from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from nodes.chain import Hop
    from nodes.compactrag.state import SubQuestion
    from nodes.kit.context import Context
    from nodes.parrag.state import Attempt, PlanStep
    from nodes.prunerag.state import TreeNode

__all__ = ["picture"]

_MOODS = {"accepted": "good", "rejected": "bad"}
_ROUTES = {
    "straightforward": "answered without a search",
    "single_step": "one retrieval",
    "compound": "sub-questions side by side",
    "complex": "one seed question after the other",
}


def picture(method: str, state: Mapping[str, Any], context: Context) -> dict[str, Any] | None:
    """What the page draws, as plain values with a `kind`; None for a method without a picture, or before there is one.

    Args:
        method: Method id.
        state: The run's last state.
        context: Its settings.
    """
    if method == "prunerag" and state.get("tree"):
        return {"kind": "tree", "threshold": context.threshold_of("confidence_gate"), "root": _tree(state["tree"])}
    if method == "parrag" and state.get("plan"):
        return _plan(state, context)
    if method == "hanrag" and state.get("route"):
        return _route(state, context)
    if method == "compactrag" and state.get("plan"):
        return _waves(state["plan"])
    return None


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


def _plan(state: Mapping[str, Any], context: Context) -> dict[str, Any]:
    steps: list[PlanStep] = state["plan"]
    limit = context.threshold_of("reviewer")
    return {
        "kind": "plan",
        "hops": state.get("hops"),
        "alpha": state.get("alpha"),
        "threshold": limit,
        "steps": [
            {
                "action": step["action"],
                "question": plain(step["asked"]),
                "planned": plain(step["question"]) if step["question"] != step["asked"] else "",
                "attempts": [_attempt(step, number, limit) for number in range(len(step["attempts"]))],
            }
            for step in steps
        ],
    }


def _attempt(step: PlanStep, number: int, limit: float | None) -> dict[str, Any]:
    attempt: Attempt = step["attempts"][number]
    decided, confidence = attempt.get("decided", ""), attempt["confidence"]
    accepted = decided == "accept" if decided else None if confidence is None else confidence >= (limit or 0.0)
    titles = {ref["id"]: plain(ref["title"]) for ref in attempt["documents"]}
    return {
        "answer": plain(attempt["answer"]),
        "accuracy": attempt["accuracy"],
        "attribution": attempt["attribution"],
        "confidence": confidence,
        "percent": None if confidence is None else round(100 * min(max(confidence, 0.0), 1.0), 1),
        "cited": [titles[key] for key in attempt["cited"] if key in titles],
        "uncited": attempt["uncited"],
        "verdict": ""
        if accepted is None
        else ("accepted" if accepted else "rejected") + (" by a person" * bool(decided)),
        "mood": "" if accepted is None else "good" if accepted else "bad",
        "counts": number == step["chosen"] and len(step["attempts"]) > 1,
    }


def _route(state: Mapping[str, Any], context: Context) -> dict[str, Any]:
    route = str(state["route"])
    chain: list[Hop] = sorted(state.get("chain", []), key=lambda hop: int(hop["id"].rpartition("/")[2]))
    return {
        "kind": "chain",
        "route": route.replace("_", " "),
        "about": _ROUTES.get(route, ""),
        "side_by_side": route == "compound",
        "hops": [_hop(hop, context) for hop in chain],
    }


def _hop(hop: Hop, context: Context) -> dict[str, Any]:
    judged = {row["id"]: row["probability"] for row in hop["relevance"]}
    limit = context.threshold_of("ending_discriminator")
    ending = hop["ending"]
    return {
        "question": plain(hop["question"]),
        "answer": plain(hop["answer"]),
        "passages": [
            {"title": plain(ref["title"]), "kept": ref["id"] in hop["kept"], "probability": judged.get(ref["id"])}
            for ref in hop["retrieved"]
        ],
        "flagged": hop["flagged"],
        "ending": "" if ending is None else f"enough? {ending:.3f} {'≥' if ending >= (limit or 0) else '<'} {limit:g}",
        "ended": hop["ended"],
    }


def _waves(plan: Sequence[SubQuestion]) -> dict[str, Any]:
    waves: dict[int, list[SubQuestion]] = {}
    for row in plan:
        waves.setdefault(row["wave"], []).append(row)
    return {"kind": "waves", "waves": [[_subquestion(row) for row in waves[wave]] for wave in sorted(waves)]}


def _subquestion(row: SubQuestion) -> dict[str, Any]:
    return {
        "number": row["number"],
        "question": plain(literal(row["question"])),
        "rewritten": plain(row["rewritten"]) if row["rewritten"] not in ("", literal(row["question"])) else "",
        "needs": row["depends_on"],
        "answer": plain(row["answer"]),
        "probability": row["probability"],
        "pairs": [{"text": plain(pair["preview"]), "used": pair["id"] == row["answer_from"]} for pair in row["pairs"]],
    }
