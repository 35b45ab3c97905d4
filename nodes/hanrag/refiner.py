"""Refiner: the next question, with what is known by now (Sec. 4.1)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import QuestionText
from nodes.chain import hop_id, next_hop, written
from nodes.hanrag.context import HanContext
from nodes.hanrag.state import HanState
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node
from nodes.kit.steps import step

__all__ = ["seed_refiner"]


class RefinedQuestion(BaseModel):
    """Output of the refiner."""

    question: QuestionText  # a long question that is simple already comes back as it is


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
            prompt,
            RefinedQuestion,
            {"question": quoted(state["question"])},
            at=at,
            items=Items("chain", written(chain)),
        )
        refined = plain(asked.value.question) if asked.value else ""
        problem = asked.problem or ("" if refined else "the seed question is empty")
        seed = refined or state["question"]
        row = step(
            at,
            "decompose",
            question=state["question"],
            answer=seed,
            verdict="asked before" if seed in [hop["question"] for hop in chain] else "",
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{problem}; the question itself is asked" if problem else asked.cut,
        )
        return {"seed": seed, "trajectory": [row], "ledger": asked.calls}

    return refiner
