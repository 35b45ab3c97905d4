"""Drafter: reasoning and answer from the evidence, which are the query of the next search (Iter-RetGen)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.baselines.context import IterRetGenContext
from nodes.baselines.state import IterRetGenState
from nodes.generator import ReasonedAnswer, passages_or_sentences, read_answer
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.steps import logged


def iteration_id(state: IterRetGenState) -> str:
    """Id of the current iteration."""
    return f"root/{state['iteration'] + 1}"


async def drafter(state: IterRetGenState, runtime: Runtime[IterRetGenContext]) -> dict[str, Any]:
    """End an iteration with an answer; the last iteration's is the run's.

    Output that can't be parsed keeps the previous iteration's draft and answer, and the step records it; a run in which
    none can be parsed fails.
    """
    at = iteration_id(state)
    asked = await ask_model(
        runtime,
        "iter_retgen/draft",
        ReasonedAnswer,
        {"question": quoted(state["question"])},
        at=f"{at}/drafter",
        items=Items("evidence", await passages_or_sentences(state, runtime.context)),
        role="generator",
    )
    final = read_answer(asked.value, runtime.context)
    answer, status = final["answer"], final["status"]
    update: dict[str, Any] = {"status": status, "error": asked.error}
    instead = "there is no answer"
    if asked.value:
        update |= {"draft": plain(f"{asked.value.thought} {answer}"), **final}
    elif state["iteration"] and not state["error"]:
        answer, status = state["answer"], state["status"]
        update, instead = {}, "the answer before it stands"
    row = asked.step(
        "answer",
        parent=at,
        question=state["question"],
        answer=answer,
        verdict=status,
        evidence=[ref["id"] for ref in state["evidence"]],
        instead=instead,
    )
    return {"iteration": state["iteration"] + 1, **update, **logged(row, asked)}
