"""PAR-RAG: the plan, and every attempt at a step with its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from nodes.kit.context import Context
    from nodes.parrag.state import Attempt, PlanStep


def picture(state: Mapping[str, Any], context: Context) -> dict[str, Any] | None:
    """The values of `parrag.html`; None before there is a plan."""
    if not state.get("plan"):
        return None
    steps: list[PlanStep] = state["plan"]
    limit = context.threshold_of("reviewer")
    return {
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
