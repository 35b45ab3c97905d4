"""The two judges of a step's answer: accuracy (Eq. 7) and attribution (Eq. 8) (PAR-RAG, Sec. 3.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.structured import BadOutput
from nodes.kit.model import Asked, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_blocks, quoted
from nodes.parrag.context import ParContext
from nodes.parrag.plan import current_step, review_id
from nodes.parrag.state import Judgement, ParState
from stores.passages import Passage

CREDIBILITY = {"contradictory": 0.0, "extrapolatory": 0.5, "attributable": 1.0}
"""F by AttrScore's label (Eq. 8)."""
_LABEL = re.compile(r"\b(?:not attributable|contradictory|extrapolatory|attributable)\b", re.IGNORECASE)


class Accuracy(BaseModel):
    """Output of the accuracy judge."""

    score: float = Field(ge=0.0, le=1.0)


class Attribution(BaseModel):
    """Output of the attribution judge."""

    label: Literal["contradictory", "extrapolatory", "attributable"]


async def accuracy_judge(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Have the model score how accurate the latest answer is, from 0 to 1 (Eq. 7).

    An empty answer needs no call: it scores 0. So does one whose score can't be parsed, and the review records it.
    """
    plan_step = current_step(state)
    attempt = plan_step["attempts"][-1]
    if not attempt["answer"]:
        return {"accuracy": Judgement(value=0.0, label="", problem="", truncated=0)}
    asked = await ask_model(
        runtime,
        "parrag/accuracy",
        Accuracy,
        {"question": quoted(plan_step["asked"]), "answer": quoted(attempt["answer"])},
        at=review_id(state),
        items=Items("documents", passage_blocks(await fetch(state, attempt["cited"]))),
        role="accuracy",
    )
    value = round(asked.value.score, 4) if asked.value else 0.0
    judged = Judgement(value=value, label="", problem=asked.problem, truncated=asked.truncated)
    return {"accuracy": judged, "ledger": asked.calls}


async def attribution_judge(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Judge whether the cited passages support the latest answer (Eq. 8).

    By the model, or by a separate scorer (`ParContext.attribution`). An empty answer needs no call: it counts as
    contradictory. A label that can't be parsed counts as extrapolatory, and the review records it.
    """
    plan_step = current_step(state)
    attempt = plan_step["attempts"][-1]
    if not attempt["answer"]:
        return {"attribution": Judgement(value=0.0, label="contradictory", problem="", truncated=0)}
    passages = await fetch(state, attempt["cited"])
    asked = await ask_attribution(runtime, plan_step["asked"], attempt["answer"], passages, at=review_id(state))
    label = asked.value.label if asked.value else "extrapolatory"
    judged = Judgement(value=CREDIBILITY[label], label=label, problem=asked.problem, truncated=asked.truncated)
    return {"attribution": judged, "ledger": asked.calls}


async def ask_attribution(
    runtime: Runtime[ParContext], question: str, answer: str, passages: Sequence[Passage], *, at: str
) -> Asked[Attribution]:
    """Attribution of an answer to its passages by the model, or by the scorer that `ParContext.attribution` names.

    Args:
        runtime: The node's runtime.
        question: The question.
        answer: The answer.
        passages: The passages it cites.
        at: Id of the trajectory step.
    """
    scored = runtime.context.attribution == "attrscore"
    return await ask_model(
        runtime,
        "parrag/attrscore" if scored else "parrag/attribution",
        Attribution,
        {"question": quoted(question), "answer": quoted(answer)},
        at=at,
        items=Items("documents", [quoted(p.text) for p in passages] if scored else passage_blocks(passages)),
        role="attribution" if scored else "llm",
        read=read_label if scored else None,
    )


def read_label(text: str) -> Attribution:
    """The label that a scorer replied with: the first in its text.

    The `not attributable` of scorers with two classes may be either of the others; it counts as extrapolatory, the
    middle value.

    Raises:
        BadOutput: The text has no label.
    """
    found = _LABEL.search(text)
    if found is None:
        raise BadOutput(f"there is no label in the reply {text[:100]!r}")
    label = found[0].casefold()
    return Attribution.model_validate({"label": "extrapolatory" if label == "not attributable" else label})
