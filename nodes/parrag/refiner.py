"""Refiner: put what is known by now into the next question (Sec. 3.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import QuestionText
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.parrag.plan import current_step, step_id, trajectory, with_step
from nodes.parrag.state import ParState

__all__ = ["refiner"]


class RefinedQuestion(BaseModel):
    """Output of the refiner."""

    question: QuestionText  # a long question that is simple already comes back as it is


def refiner(prompt: str) -> Node:
    """A node that goes on to the next step of the plan and refines its question with the answers so far.

    A question that can't be read leaves the plan's own as it is, and the step says so.

    Args:
        prompt: Name of the prompt; it is given `question` and `trajectory`.
    """

    async def refiner(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        state = {**state, "current": state["current"] + 1}
        plan_step = current_step(state)
        asked = await ask_model(
            runtime,
            prompt,
            RefinedQuestion,
            {"question": quoted(plan_step["question"])},
            at=f"{step_id(state)}/question",
            items=Items("trajectory", trajectory(state, state["current"])),
        )
        refined = plain(asked.value.question) if asked.value else ""
        problem = asked.problem or ("" if refined else "the refined question is empty")
        row = step(
            f"{step_id(state)}/question",
            "decompose",
            question=plan_step["question"],
            answer=refined or plan_step["question"],
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{problem}; the plan's question stays" if problem else asked.cut,
        )
        return {
            **with_step(state, {**plan_step, "asked": refined or plan_step["question"]}),
            "current": state["current"],
            "trajectory": [row],
            "ledger": asked.calls,
        }

    return refiner
