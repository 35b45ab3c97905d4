"""Actor: carry out a step of the plan: search, answer, cite (PAR-RAG, Sec. 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import LongText
from nodes.generator import ReasonedAnswer
from nodes.kit.abstention import is_abstention
from nodes.kit.citations import read_citations
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import passage_blocks, quoted
from nodes.kit.search import search
from nodes.kit.state import PassageRef
from nodes.kit.steps import logged
from nodes.parrag.context import ParContext
from nodes.parrag.plan import chosen, current_step, step_id, trajectory, with_step
from nodes.parrag.state import Attempt, ParState, PlanStep


class CitedAnswer(BaseModel):
    """Output of the actor: an answer with citations such as [2]."""

    answer: LongText


async def actor(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Answer the current step: from a search, or, where its action is Answer, from the steps before it.

    An Answer step with no answer before it has nothing to answer from: it searches, and the step records it.
    """
    plan_step, at = current_step(state), step_id(state)
    if plan_step["action"] != "Answer":
        return await _search_and_answer(state, runtime, at)
    if any(attempt["answer"] for row in state["plan"][: state["current"]] if (attempt := chosen(row))):
        return await _answer_from_trajectory(state, runtime, at)
    state = {**state, **with_step(state, {**plan_step, "action": "Retrieve"})}  # type: ignore[typeddict-item]
    return await _search_and_answer(state, runtime, at, problem="there is no answer before this step to answer from")


async def reviser(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Answer the step once more after its first answer was rejected, from a sparse search (Sec. 3.4)."""
    at = step_id(state)
    return await _search_and_answer(state, runtime, f"{at}/revision", parent=at, mode="sparse")


async def _search_and_answer(
    state: ParState,
    runtime: Runtime[ParContext],
    at: str,
    *,
    parent: str = "root",
    mode: Literal["sparse"] | None = None,
    problem: str = "",
) -> dict[str, Any]:
    plan_step = current_step(state)
    found = await search(state, runtime, {at: plan_step["asked"]}, mode=mode)
    documents = found.hits[0]
    asked = await ask_model(
        runtime,
        "parrag/actor",
        CitedAnswer,
        {"question": quoted(plan_step["asked"])},
        at=at,
        items=Items("documents", passage_blocks(found.passages[ref["id"]] for ref in documents)),
    )
    shown = documents[: len(documents) - asked.truncated]
    attempt = _attempt(shown, *read_citations(asked.value.answer if asked.value else "", shown))
    row = asked.step(
        "answer",
        parent=parent,
        question=plan_step["asked"],
        answer=attempt["answer"],
        verdict="cites nothing" if attempt["uncited"] else "" if attempt["answer"] else "no answer",
        evidence=attempt["cited"],
        searches=1,
        problem=problem,
        instead="the step has no answer" if asked.problem else "it searches",
    )
    attempts = [*plan_step["attempts"], attempt]
    now: PlanStep = {**plan_step, "attempts": attempts, "chosen": len(attempts) - 1}
    return {**with_step(state, now), **logged(row, found, asked)}


async def _answer_from_trajectory(state: ParState, runtime: Runtime[ParContext], at: str) -> dict[str, Any]:
    plan_step = current_step(state)
    asked = await ask_model(
        runtime,
        "parrag/actor_trajectory",
        ReasonedAnswer,
        {"question": quoted(plan_step["asked"])},
        at=at,
        items=Items("trajectory", trajectory(state, state["current"])),
    )
    answer, _ = read_citations(asked.value.answer if asked.value else "", [])
    before = [attempt for row in state["plan"][: state["current"]] if (attempt := chosen(row))]
    documents = {ref["id"]: ref for attempt in before for ref in attempt["documents"] if ref["id"] in attempt["cited"]}
    attempt = _attempt(list(documents.values()), answer, list(documents))
    row = asked.step(
        "answer",
        question=plan_step["asked"],
        answer=attempt["answer"],
        verdict="" if attempt["answer"] else "no answer",
        evidence=attempt["cited"],
        instead="the step has no answer",
    )
    return {**with_step(state, {**plan_step, "attempts": [attempt], "chosen": 0}), **logged(row, asked)}


def _attempt(documents: Sequence[PassageRef], answer: str, cited: Sequence[str]) -> Attempt:
    """An answer with its evidence: what it cites, or else all that was retrieved; of no answer, none."""
    answer = "" if is_abstention(answer) else answer
    return Attempt(
        documents=list(documents),
        answer=answer,
        cited=(list(cited) or [ref["id"] for ref in documents]) if answer else [],
        uncited=bool(answer) and not cited,
        accuracy=None,
        attribution="",
        credibility=None,
        confidence=None,
    )
