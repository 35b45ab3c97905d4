"""Reviewer: dual verification of a step's answer (PAR-RAG, Sec. 3.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.structured import BadOutput
from nodes.kit.events import tell_verdicts
from nodes.kit.model import Asked, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.person import Decision, decide, shown
from nodes.kit.rendering import passage_block, quoted
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.parrag.context import ParContext
from nodes.parrag.plan import current_step, step_id, with_step
from nodes.parrag.state import Attempt, Judgement, ParState
from stores.passages import Passage

__all__ = [
    "CREDIBILITY",
    "accuracy_judge",
    "ask_attribution",
    "attribution_judge",
    "is_accepted",
    "read_label",
    "review_id",
    "reviewer",
]

CREDIBILITY = {"contradictory": 0.0, "extrapolatory": 0.5, "attributable": 1.0}
"""F by AttrScore's label (Eq. 8)."""
_LABEL = re.compile(r"\b(?:not attributable|contradictory|extrapolatory|attributable)\b", re.IGNORECASE)


class Accuracy(BaseModel):
    """Output of the accuracy judge."""

    score: float = Field(ge=0.0, le=1.0)


class Attribution(BaseModel):
    """Output of the attribution judge."""

    label: Literal["contradictory", "extrapolatory", "attributable"]


def review_id(state: ParState) -> str:
    """Id of the review of the latest answer."""
    again = len(current_step(state)["attempts"]) > 1
    return f"{step_id(state)}/revision/review" if again else f"{step_id(state)}/review"


def accuracy_judge(prompt: str) -> Node:
    """A node that has the model score how accurate the latest answer is, from 0 to 1 (Eq. 7).

    An empty answer is not asked about: it scores 0. So does one whose score can't be read, and the review says so.

    Args:
        prompt: Name of the prompt; it is given `question`, `answer` and `documents`.
    """

    async def accuracy_judge(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        if not current_step(state)["attempts"][-1]["answer"]:
            return {"accuracy": Judgement(value=0.0, label="", problem="", truncated=0)}
        plan_step = current_step(state)
        passages = await fetch(state, plan_step["attempts"][-1]["cited"])
        asked = await ask_model(
            runtime,
            prompt,
            Accuracy,
            {"question": quoted(plan_step["asked"]), "answer": quoted(plan_step["attempts"][-1]["answer"])},
            at=review_id(state),
            items=Items(
                "documents", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
            ),
        )
        value = round(asked.value.score, 4) if asked.value else 0.0
        judged = Judgement(value=value, label="", problem=asked.problem, truncated=asked.truncated)
        return {"accuracy": judged, "ledger": asked.calls}

    return accuracy_judge


def attribution_judge(prompt: str, scorer_prompt: str) -> Node:
    """A node that says whether the cited passages bear the latest answer out (Eq. 8).

    The model is asked, or a scorer of its own (`ParContext.attribution`). An empty answer is not asked about: it counts
    as contradictory. A label that can't be read counts as extrapolatory, and the review says so.

    Args:
        prompt: Name of the prompt; it is given `question`, `answer` and `documents`.
        scorer_prompt: Likewise for a scorer, which replies with a label in plain text.
    """

    async def attribution_judge(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        if not current_step(state)["attempts"][-1]["answer"]:
            return {"attribution": Judgement(value=0.0, label="contradictory", problem="", truncated=0)}
        plan_step = current_step(state)
        asked = await ask_attribution(
            runtime,
            step=review_id(state),
            question=plan_step["asked"],
            answer=plan_step["attempts"][-1]["answer"],
            passages=await fetch(state, plan_step["attempts"][-1]["cited"]),
            prompt=prompt,
            scorer_prompt=scorer_prompt,
        )
        label = asked.value.label if asked.value else "extrapolatory"
        judged = Judgement(value=CREDIBILITY[label], label=label, problem=asked.problem, truncated=asked.truncated)
        return {"attribution": judged, "ledger": asked.calls}

    return attribution_judge


async def ask_attribution(
    runtime: Runtime[Any],
    *,
    step: str,
    question: str,
    answer: str,
    passages: Sequence[Passage],
    prompt: str,
    scorer_prompt: str,
) -> Asked[Attribution]:
    """What the model, or the scorer that `ParContext.attribution` names, says of an answer and its passages.

    Args:
        runtime: The node's runtime.
        step: Id of the trajectory step.
        question: What was answered.
        answer: The answer.
        passages: What it cites.
        prompt: Name of the model's prompt.
        scorer_prompt: Name of the scorer's.
    """
    scored = runtime.context.attribution == "attrscore"
    return await ask_model(
        runtime,
        scorer_prompt if scored else prompt,
        Attribution,
        {"question": quoted(question), "answer": quoted(answer)},
        at=step,
        items=Items("documents", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]),
        role="attribution" if scored else "llm",
        read=read_label if scored else None,
    )


def read_label(text: str) -> Attribution:
    """The label that a scorer replied with: the first in its text.

    The `not attributable` of scorers with two classes may be either of the others; it counts as extrapolatory, which is
    the one in the middle.

    Raises:
        BadOutput: There is none of them in it.
    """
    found = _LABEL.search(text)
    if found is None:
        raise BadOutput(f"there is no label in the reply {text[:100]!r}")
    label = found[0].casefold()
    return Attribution.model_validate({"label": "extrapolatory" if label == "not attributable" else label})


def is_accepted(attempt: Attempt, context: ParContext) -> bool:
    """Whether an answer passed the review (Eq. 11), or a person let it pass."""
    decided = attempt.get("decided", "")
    return decided == "accept" if decided else (attempt["confidence"] or 0.0) >= context.threshold


def reviewer() -> Node:
    """A node that weighs both scores by the hop count (Eq. 10) and accepts or rejects (Eq. 11).

    Of two answers the one with the higher confidence is chosen; the first, where they are equal. A person may be asked
    (`ParContext.review`); an answer that a person accepts is the one that is chosen.
    """

    async def reviewer(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: ParContext = runtime.context
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
            "trajectory": [row],
        }

    return reviewer


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
