"""Actor: carry out a step of the plan: search, answer, cite (PAR-RAG, Sec. 3.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import LongText
from nodes.generator import is_abstention
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.search import search
from nodes.kit.state import Node, PassageRef
from nodes.kit.steps import step
from nodes.parrag.plan import chosen, current_step, step_id, trajectory, with_step
from nodes.parrag.state import Attempt, ParState

__all__ = ["actor", "read_citations"]

_CITATION = re.compile(r"\s*[\[［]\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*[\]］]")


class CitedAnswer(BaseModel):
    """Output of the actor: an answer with citations such as [2]."""

    answer: LongText


def actor(prompt: str, from_trajectory: str, *, mode: Literal["sparse"] | None = None) -> Node:
    """A node that answers the current step.

    A step whose action is Answer searches nothing and answers from the steps before it.

    Args:
        prompt: Name of the prompt for a step that retrieves; it is given `question` and `documents`.
        from_trajectory: Name of the prompt for a step that answers; it is given `question` and `trajectory`.
        mode: Search this half instead of the context's, after the first answer was rejected.
    """

    async def actor(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        plan_step = current_step(state)
        again = bool(plan_step["attempts"])
        at = f"{step_id(state)}/revision" if again else step_id(state)
        if plan_step["action"] == "Answer" and not again:
            return await _answer_from_trajectory(state, runtime, from_trajectory, at)
        found = await search(state, runtime, {at: plan_step["asked"]}, mode=mode)
        documents = found.hits[0]
        asked = await ask_model(
            runtime,
            prompt,
            CitedAnswer,
            {"question": quoted(plan_step["asked"])},
            at=at,
            items=Items(
                "documents",
                [passage_block(number, found.passages[ref["id"]]) for number, ref in enumerate(documents, start=1)],
            ),
        )
        shown = documents[: len(documents) - asked.truncated]
        answer, cited = read_citations(asked.value.answer if asked.value else "", shown)
        attempt = _attempt(shown, "" if is_abstention(answer) else answer, cited)
        row = step(
            at,
            "answer",
            parent=step_id(state) if again else "root",
            question=plan_step["asked"],
            answer=attempt["answer"],
            verdict="cites nothing" if attempt["uncited"] and attempt["answer"] else "",
            evidence=attempt["cited"],
            calls=len(asked.calls),
            searches=1,
            truncated=asked.truncated,
            fallback=f"{asked.problem}; the step has no answer" if asked.problem else asked.cut,
        )
        attempts = [*plan_step["attempts"], attempt]
        return {
            **with_step(state, {**plan_step, "attempts": attempts, "chosen": len(attempts) - 1}),
            "trajectory": [row],
            "ledger": [*found.calls, *asked.calls],
        }

    return actor


async def _answer_from_trajectory(state: ParState, runtime: Runtime[Any], prompt: str, at: str) -> dict[str, Any]:
    plan_step = current_step(state)
    asked = await ask_model(
        runtime,
        prompt,
        CitedAnswer,
        {"question": quoted(plan_step["asked"])},
        at=at,
        items=Items("trajectory", trajectory(state, state["current"])),
    )
    answer, _ = read_citations(asked.value.answer if asked.value else "", [])
    before = [attempt for row in state["plan"][: state["current"]] if (attempt := chosen(row))]
    documents = {ref["id"]: ref for attempt in before for ref in attempt["documents"] if ref["id"] in attempt["cited"]}
    attempt = _attempt(list(documents.values()), "" if is_abstention(answer) else answer, list(documents))
    row = step(
        at,
        "answer",
        question=plan_step["asked"],
        answer=attempt["answer"],
        evidence=attempt["cited"],
        calls=len(asked.calls),
        truncated=asked.truncated,
        fallback=f"{asked.problem}; the step has no answer" if asked.problem else asked.cut,
    )
    return {
        **with_step(state, {**plan_step, "attempts": [attempt], "chosen": 0}),
        "trajectory": [row],
        "ledger": asked.calls,
    }


def read_citations(text: str, documents: Sequence[PassageRef]) -> tuple[str, list[str]]:
    """An answer without its citations, and the passages they name, in order; numbers that name none are dropped.

    Args:
        text: With citations such as `[2]` or `[1, 3]`.
        documents: What the numbers count, from 1.
    """
    numbers = [int(number) for match in _CITATION.finditer(text) for number in re.findall(r"\d+", match[1])]
    cited = [documents[number - 1]["id"] for number in dict.fromkeys(numbers) if 1 <= number <= len(documents)]
    return plain(_CITATION.sub("", text)), cited


def _attempt(documents: Sequence[PassageRef], answer: str, cited: Sequence[str]) -> Attempt:
    return Attempt(
        documents=list(documents),
        answer=answer,
        cited=list(cited) or [ref["id"] for ref in documents],
        uncited=not cited,
        accuracy=None,
        attribution="",
        credibility=None,
        confidence=None,
    )
