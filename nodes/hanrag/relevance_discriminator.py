"""Relevance discriminator: keep what can help to answer, drop the noise (HANRAG, Sec. 4.1, App. A.3)."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from inference.heads import revelator
from nodes.chain import Relevance
from nodes.hanrag.context import HanContext
from nodes.hanrag.state import AnragState
from nodes.hanrag.verdict import Verdict, ask_verdict, weigh
from nodes.kit.events import tell_verdicts
from nodes.kit.model import Items
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block, quoted
from nodes.kit.state import IndexRef, PassageRef
from nodes.kit.steps import logged


class RelevanceVerdict(BaseModel):
    """Output of the relevance discriminator."""

    relevant: bool


class Candidates(TypedDict):
    """Input of a task: passages to judge, and the question."""

    at: str
    """Id of the hop."""
    seed: str
    first: int
    """Rank of the first of them, from 1."""
    passages: list[PassageRef]
    given: list[str]
    index: IndexRef | None


def to_judge(state: AnragState, context: HanContext) -> list[Candidates]:
    """A task for each passage that was retrieved; the encoder runs locally and takes all in one."""
    found = state["candidates"]
    size = len(found) if context.by_encoder("relevance") else 1
    return [
        Candidates(
            at=state["at"],
            seed=state["seed"],
            first=start + 1,
            passages=found[start : start + size],
            given=state["given"],
            index=state["index"],
        )
        for start in range(0, len(found), max(1, size))
    ]


async def relevance_discriminator(state: Candidates, runtime: Runtime[HanContext]) -> dict[str, Any]:
    """Judge one passage by the model, or all of a hop's by the encoder.

    A passage whose verdict can't be parsed is kept: losing a passage is worse than noise.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, which the context requires.
    """
    context, refs = runtime.context, state["passages"]
    threshold = context.relevance_threshold
    ids = [f"{state['at']}/relevance/{number}" for number in range(state["first"], state["first"] + len(refs))]
    passages = await fetch(state, [ref["id"] for ref in refs])
    if context.by_encoder("relevance"):
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        probabilities = await asyncio.to_thread(revelator.relevance, state["seed"], texts)
        verdicts = [weigh(at, each, threshold) for at, each in zip(ids, probabilities, strict=True)]
    else:
        values = {"question": quoted(state["seed"])}
        verdicts = [
            await ask_verdict(
                runtime,
                "hanrag/relevance",
                RelevanceVerdict,
                values,
                at=at,
                items=Items("passage", [passage_block(1, passage)]),
                threshold=threshold,
            )
            for at, passage in zip(ids, passages, strict=True)
        ]
    judged = [_judged(ref, verdict) for ref, verdict in zip(refs, verdicts, strict=True)]
    steps = [
        verdict.step(
            "judge",
            parent=state["at"],
            question=state["seed"],
            answer=row["title"],
            verdict="relevant" if row["relevant"] else "not relevant",
            score=row["probability"],
            evidence=[row["id"]],
            truncated=0,
            fallback=row["problem"],
        )
        for row, verdict in zip(judged, verdicts, strict=True)
    ]
    tell_verdicts(runtime, steps)
    return {"judged": judged, **logged(steps, *verdicts)}


def _judged(ref: PassageRef, verdict: Verdict) -> Relevance:
    problem = "the passage does not fit the model's context" if verdict.truncated else verdict.problem
    if verdict.holds is None or verdict.truncated:
        probability, relevant, problem = None, True, f"{problem}; it is kept"
    else:
        probability, relevant = verdict.probability, verdict.holds
    return Relevance(id=ref["id"], title=ref["title"], probability=probability, relevant=relevant, problem=problem)
