"""Refiner: put what is known by now into the next question (PAR-RAG, Sec. 3.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import QuestionText
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.steps import logged
from nodes.parrag.context import ParContext
from nodes.parrag.plan import current_step, step_id, trajectory, with_step
from nodes.parrag.state import ParState


class RefinedQuestion(BaseModel):
    """Output of the refiner."""

    question: QuestionText  # a long question that is simple already comes back as it is


async def refiner(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Take the next step of the plan and refine its question with the answers so far.

    A question that can't be read leaves the plan's own as it is, and the step says so.
    """
    state = {**state, "current": state["current"] + 1}
    plan_step = current_step(state)
    asked = await ask_model(
        runtime,
        "parrag/refiner",
        RefinedQuestion,
        {"question": quoted(plan_step["question"]), "original": quoted(state["question"])},
        at=f"{step_id(state)}/question",
        items=Items("trajectory", trajectory(state, state["current"])),
    )
    refined = plain(asked.value.question) if asked.value else ""
    question = refined or plan_step["question"]
    row = asked.step(
        "decompose",
        question=plan_step["question"],
        answer=question,
        problem="" if refined else "the refined question is empty",
        instead="the plan's question stays",
    )
    return {
        **with_step(state, {**plan_step, "asked": question}),
        "current": state["current"],
        **logged(row, asked),
    }
