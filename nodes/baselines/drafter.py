"""Drafter: reasoning and answer from what was found, which the next search goes out from (Iter-RetGen)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.baselines.state import IterRetGenState
from nodes.generator import ReasonedAnswer, passages_or_sentences, read_answer
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node, RunError
from nodes.kit.steps import step

__all__ = ["drafter", "iteration_id"]


def iteration_id(state: IterRetGenState) -> str:
    """Id of the iteration that is being worked on."""
    return f"root/{state['iteration'] + 1}"


def drafter(prompt: str) -> Node:
    """A node that ends an iteration with an answer; the last iteration's is the run's.

    An output that can't be read leaves the draft and the answer of the iteration before as they are, and the step says
    so; a run in which none could be read has failed.

    Args:
        prompt: Name of the prompt; it is given `question` and `evidence`.
    """

    async def drafter(state: IterRetGenState, runtime: Runtime[Any]) -> dict[str, Any]:
        at = iteration_id(state)
        asked = await ask_model(
            runtime,
            prompt,
            ReasonedAnswer,
            {"question": quoted(state["question"])},
            at=f"{at}/drafter",
            items=Items("evidence", await passages_or_sentences(state, runtime.context)),
            role="generator",
        )
        update: dict[str, Any] = {"iteration": state["iteration"] + 1, "ledger": asked.calls}
        answer, status = read_answer(asked.value)
        fallback = asked.cut
        if asked.value:
            update |= {
                "draft": plain(f"{asked.value.thought} {answer}"),
                "answer": answer,
                "status": status,
                "error": None,
            }
        elif state["iteration"] and not state["error"]:
            answer, status = state["answer"], state["status"]
            fallback = f"{asked.problem}; the answer before it stands"
        else:
            update |= {
                "status": status,
                "error": RunError(kind="model_output", message=asked.problem, node="drafter"),
            }
            fallback = f"{asked.problem}; there is no answer"
        row = step(
            f"{at}/drafter",
            "answer",
            parent=at,
            question=state["question"],
            answer=answer,
            verdict=status,
            evidence=[ref["id"] for ref in state["evidence"]],
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=fallback,
        )
        return {**update, "trajectory": [row]}

    return drafter
