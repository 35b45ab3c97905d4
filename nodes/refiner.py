"""Refiner: put what is known by now into the next question (PAR-RAG, Sec. 3.2; HANRAG, Sec. 4.1)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import QuestionText
from nodes.chain import hop_id, next_hop, written
from nodes.context import HanContext
from nodes.model import ask_model
from nodes.plan import current_step, step_id, trajectory, with_step
from nodes.rendering import plain, quoted
from nodes.state import HanState, Node, ParState
from nodes.steps import step

__all__ = ["refiner", "seed_refiner"]


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
            node="refiner",
            step=f"{step_id(state)}/question",
            prompt=prompt,
            values={"question": quoted(plan_step["question"])},
            output=RefinedQuestion,
            items=trajectory(state, state["current"]),
            items_as="trajectory",
        )
        refined = plain(asked.value.question) if asked.value else ""
        problem = asked.problem or ("" if refined else "the refined question is empty")
        row = step(
            f"{step_id(state)}/question",
            "decompose",
            "refiner",
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


def seed_refiner(prompt: str) -> Node:
    """A node that draws the next `seed` question from a complex question and the chain answered so far.

    Without the refiner (App. E) it is the question itself, as when the output can't be read, and the step says so. One
    that was asked before is asked again: the method has no rule against it; the step says this, too.

    Args:
        prompt: Name of the prompt; it is given `question` and `chain`.
    """

    async def refiner(state: HanState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: HanContext = runtime.context
        chain, at = state["chain"], f"{hop_id(next_hop(state))}/refiner"
        if "refiner" in context.ablate:
            return {"seed": state["question"]}
        asked = await ask_model(
            runtime,
            node="refiner",
            step=at,
            prompt=prompt,
            values={"question": quoted(state["question"])},
            output=RefinedQuestion,
            items=written(chain),
            items_as="chain",
        )
        refined = plain(asked.value.question) if asked.value else ""
        problem = asked.problem or ("" if refined else "the seed question is empty")
        seed = refined or state["question"]
        row = step(
            at,
            "decompose",
            "refiner",
            question=state["question"],
            answer=seed,
            verdict="asked before" if seed in [hop["question"] for hop in chain] else "",
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{problem}; the question itself is asked" if problem else asked.cut,
        )
        return {"seed": seed, "trajectory": [row], "ledger": asked.calls}

    return refiner
