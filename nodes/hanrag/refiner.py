"""Refiner: the next question, given the chain so far (HANRAG, Sec. 4.1)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import QuestionText
from nodes.chain import asked_before, hop_id, next_hop, written
from nodes.hanrag.context import HanContext
from nodes.hanrag.state import HanState
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.steps import logged


class RefinedQuestion(BaseModel):
    """Output of the refiner."""

    question: QuestionText  # a long question that is simple already comes back as it is


async def refiner(state: HanState, runtime: Runtime[HanContext]) -> dict[str, Any]:
    """Draw the next `seed` question from a complex question and the chain answered so far.

    Without the refiner (App. E), or if the output can't be parsed, it is the question itself; the step records the
    latter. A repeated question is asked again, as the method has no rule against it; the step records that, too.
    """
    if "refiner" in runtime.context.ablate:
        return {"seed": state["question"]}
    chain = state["chain"]
    asked = await ask_model(
        runtime,
        "hanrag/refiner",
        RefinedQuestion,
        {"question": quoted(state["question"])},
        at=f"{hop_id(next_hop(state))}/refiner",
        items=Items("chain", written(chain)),
    )
    refined = plain(asked.value.question) if asked.value else ""
    seed = refined or state["question"]
    row = asked.step(
        "decompose",
        question=state["question"],
        answer=seed,
        verdict="asked before" if asked_before(seed, chain) else "",
        problem="" if refined else "the seed question is empty",
        instead="the question itself is asked",
    )
    return {"seed": seed, **logged(row, asked)}
