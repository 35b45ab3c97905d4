"""Reviewer: weigh both judges' scores, and accept or reject the answer (PAR-RAG, Sec. 3.4)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.events import tell_verdicts
from nodes.kit.person import Decision, decide, shown
from nodes.kit.steps import logged, step
from nodes.parrag.context import ParContext
from nodes.parrag.plan import current_step, review_id, with_step
from nodes.parrag.state import Attempt, ParState


def is_accepted(attempt: Attempt, context: ParContext) -> bool:
    """Whether an answer passed the review (Eq. 11), or a person accepted it."""
    decided = attempt.get("decided", "")
    return decided == "accept" if decided else (attempt["confidence"] or 0.0) >= context.threshold


async def reviewer(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Weigh both scores by the hop count (Eq. 10) and accept or reject (Eq. 11).

    Of two answers the one with the higher confidence is chosen; the first, where they are equal. A person may be asked
    (`ParContext.review`); an answer that a person accepts is chosen.
    """
    context = runtime.context
    plan_step = current_step(state)
    accuracy, attribution, alpha = state["accuracy"], state["attribution"], state["alpha"]
    confidence = round(accuracy["value"] * alpha + attribution["value"] * (1 - alpha), 4)
    attempts = list(plan_step["attempts"])
    attempts[-1] = {
        **attempts[-1],
        "accuracy": accuracy["value"],
        "attribution": attribution["label"],
        "credibility": attribution["value"],
        "confidence": confidence,
    }
    decision = _ask_person(plan_step["asked"], attempts[-1], context) if context.review == "human" else None
    if decision is not None:
        answer = decision.answer or attempts[-1]["answer"]
        attempts[-1] = {**attempts[-1], "answer": answer, "decided": decision.decision}
    scores = [float("inf") if row.get("decided") == "accept" else row["confidence"] or 0.0 for row in attempts]
    at = review_id(state)
    problems = "; ".join(filter(None, [accuracy["problem"], attribution["problem"]]))
    row = step(
        at,
        "verify",
        parent=at.rpartition("/")[0],
        question=plan_step["asked"],
        answer=f"accuracy {accuracy['value']:.2f}, {attribution['label']}, weight of accuracy {alpha:.2f}",
        verdict=_words(attempts[-1], context),
        score=confidence,
        evidence=attempts[-1]["cited"],
        calls=sum(call["step"] == at and call["kind"] == "model" for call in state["ledger"]),
        truncated=max(accuracy.get("truncated", 0), attribution.get("truncated", 0)),
        fallback=f"{problems}; the cautious value was taken" if problems else "",
    )
    tell_verdicts(runtime, [row])
    return {
        **with_step(state, {**plan_step, "attempts": attempts, "chosen": scores.index(max(scores))}),
        **logged(row),
    }


def _ask_person(question: str, attempt: Attempt, context: ParContext) -> Decision:
    accepted = is_accepted(attempt, context)
    return decide(
        {
            "question": question,
            "answer": attempt["answer"] or "(none)",
            "verdict": f"{'accepted' if accepted else 'rejected'}: confidence {attempt['confidence']:.2f}, threshold "
            f"{context.threshold:g} (accuracy {attempt['accuracy']:.2f}, {attempt['attribution']})",
            "evidence": shown(attempt["documents"], attempt["cited"]),
        },
        {"accept": "the answer counts", "reject": "it is searched for again, once"},
        "accept" if accepted else "reject",
        own_answer=True,
    )


def _words(attempt: Attempt, context: ParContext) -> str:
    by = " by a person" if "decided" in attempt else ""
    return f"accepted{by}" if is_accepted(attempt, context) else f"rejected{by}"
