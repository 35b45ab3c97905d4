"""PAR-RAG's plan: where one is in it, and the trajectory that its answered steps make."""

from __future__ import annotations

from typing import Any

from nodes.kit.rendering import UNKNOWN, quoted
from nodes.parrag.state import Attempt, ParState, PlanStep


def current_step(state: ParState) -> PlanStep:
    """The step that is being worked on."""
    return state["plan"][state["current"]]


def is_last(state: ParState) -> bool:
    """Whether no step comes after it. All steps of a plan are run."""
    return state["current"] + 1 >= len(state["plan"])


def step_id(state: ParState) -> str:
    """Id of the current step in the trajectory, from `root/1`."""
    return f"root/{state['current'] + 1}"


def review_id(state: ParState) -> str:
    """Id of the review of the latest answer."""
    again = len(current_step(state)["attempts"]) > 1
    return f"{step_id(state)}/revision/review" if again else f"{step_id(state)}/review"


def chosen(step: PlanStep) -> Attempt | None:
    """The answer that counts; None while there is none."""
    return step["attempts"][step["chosen"]] if step["attempts"] else None


def with_step(state: ParState, step: PlanStep) -> dict[str, Any]:
    """The update that puts `step` in the current one's place."""
    plan = list(state["plan"])
    plan[state["current"]] = step
    return {"plan": plan}


def trajectory(state: ParState, upto: int | None = None) -> list[str]:
    """The answered steps as blocks of text, in order: question, thought, answer, and titles of the evidence."""
    blocks = []
    for number, step in enumerate(state["plan"][:upto], start=1):
        attempt = chosen(step)
        if attempt is None:
            continue
        titles = {ref["id"]: ref["title"] for ref in attempt["documents"]}
        cited = "; ".join(quoted(titles[key]) for key in attempt["cited"] if key in titles) or "(none)"
        blocks.append(
            f'<step number="{number}">\nThought: {quoted(step["thought"])}\nQuestion: {quoted(step["asked"])}\n'
            f"Answer: {quoted(attempt['answer']) or UNKNOWN}\nEvidence: {cited}\n</step>"
        )
    return blocks
