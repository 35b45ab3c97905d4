"""Relevance discriminator: keep what can help to answer, drop the noise (HANRAG, Sec. 4.1, App. A.3)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from nodes.context import HanContext
from nodes.passages import fetch
from nodes.rendering import passage_block, quoted
from nodes.state import AnragState, IndexRef, Node, PassageRef, Relevance
from nodes.steps import step
from nodes.verdict import ask_verdict

__all__ = ["Candidate", "candidates", "relevance_discriminator"]


class RelevanceVerdict(BaseModel):
    """Output of the relevance discriminator."""

    relevant: bool


class Candidate(TypedDict):
    """What a task is sent: one passage, and the question that it may help to answer."""

    at: str
    """Id of the hop."""
    number: int
    """The passage's rank, from 1."""
    seed: str
    passage: PassageRef
    given: list[str]
    index: IndexRef | None


def candidates(state: AnragState) -> list[Candidate]:
    """A task for every passage that was retrieved."""
    return [
        Candidate(
            at=state["at"],
            number=number,
            seed=state["seed"],
            passage=ref,
            given=state["given"],
            index=state["index"],
        )
        for number, ref in enumerate(state["candidates"], start=1)
    ]


def relevance_discriminator(prompt: str) -> Node:
    """A node that judges one passage. One whose verdict can't be read is kept: a lost passage costs more than noise.

    Args:
        prompt: Name of the prompt; it is given `question` and `passage`.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, and the context wants verdicts by probability.
    """

    async def relevance_discriminator(state: Candidate, runtime: Runtime[Any]) -> dict[str, Any]:
        context: HanContext = runtime.context
        [passage] = await fetch(state, [state["passage"]["id"]])
        at = f"{state['at']}/relevance/{state['number']}"
        verdict = await ask_verdict(
            runtime,
            node="relevance_discriminator",
            step=at,
            prompt=prompt,
            values={"question": quoted(state["seed"])},
            items=[passage_block(1, passage)],
            items_as="passage",
            output=RelevanceVerdict,
            threshold=context.relevance_threshold,
        )
        judged = Relevance(id=passage.id, probability=verdict.probability, relevant=bool(verdict.holds), problem="")
        problem = "the passage does not fit the model's context" if verdict.truncated else verdict.problem
        if verdict.holds is None or verdict.truncated:
            problem = f"{problem}; it is kept"
            judged = Relevance(id=passage.id, probability=None, relevant=True, problem=problem)
        row = step(
            at,
            "judge",
            "relevance_discriminator",
            parent=state["at"],
            question=state["seed"],
            answer=state["passage"]["title"],
            verdict="relevant" if judged["relevant"] else "not relevant",
            score=judged["probability"],
            evidence=[passage.id],
            calls=len(verdict.calls),
            fallback=problem,
        )
        return {"judged": [judged], "trajectory": [row], "ledger": verdict.calls}

    return relevance_discriminator
