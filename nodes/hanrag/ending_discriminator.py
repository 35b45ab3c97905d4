"""Ending discriminator: whether the chain suffices to answer the question (HANRAG, Sec. 4.1, App. A.2)."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.heads import revelator
from nodes.chain import Hop, written
from nodes.hanrag.context import HanContext
from nodes.hanrag.state import HanState
from nodes.hanrag.verdict import Verdict, ask_verdict, weigh
from nodes.kit.events import tell_verdicts
from nodes.kit.model import Items
from nodes.kit.person import decide, shown
from nodes.kit.rendering import UNKNOWN, quoted
from nodes.kit.steps import logged


class EndingVerdict(BaseModel):
    """Output of the ending discriminator."""

    sufficient: bool


async def ending_discriminator(state: HanState, runtime: Runtime[HanContext]) -> dict[str, Any]:
    """Judge whether the chain is enough: by the model, or by the encoder where the context says so.

    A verdict that can't be parsed means that it is not. Without the discriminator (App. E) it never is. A person may
    overrule the verdict (`HanContext.review`).

    Raises:
        EndpointError: The endpoint gives no log-probabilities, which the context requires.
    """
    context = runtime.context
    if "ending" in context.ablate:
        return {}
    chain, threshold = state["chain"], context.ending_threshold
    at = f"{chain[-1]['id']}/ending"
    if context.by_encoder("ending"):
        answered = [(hop["question"], hop["answer"] or UNKNOWN) for hop in chain]
        verdict = weigh(at, await asyncio.to_thread(revelator.ending, state["question"], answered), threshold)
    else:
        values, items = {"question": quoted(state["question"])}, Items("chain", written(chain))
        verdict = await ask_verdict(
            runtime, "hanrag/ending", EndingVerdict, values, at=at, items=items, threshold=threshold
        )
    ended, by = bool(verdict.holds), ""
    if context.review == "human":
        ended, by = _ask_person(state, verdict, context), ", as a person decided"
    hop: Hop = {**chain[-1], "ending": verdict.probability, "ended": ended}
    row = verdict.step(
        "verify",
        parent=hop["id"],
        question=state["question"],
        verdict=("sufficient" if ended else "not sufficient") + by,
        score=verdict.probability,
        instead="retrieval continues" if verdict.holds is None else "",
    )
    tell_verdicts(runtime, [row])
    return {"chain": [hop], **logged(row, verdict)}


def _ask_person(state: HanState, verdict: Verdict, context: HanContext) -> bool:
    """Whether a person decides that the chain is enough."""
    words = "sufficient" if verdict.holds else "not sufficient"
    if verdict.probability is not None:
        words += f": probability {verdict.probability:.2f}, threshold {context.ending_threshold:g}"
    last = state["chain"][-1]
    said = decide(
        {
            "question": state["question"],
            "chain": [f"{hop['question']} {hop['answer'] or UNKNOWN}" for hop in state["chain"]],
            "verdict": words,
            "evidence": shown(last["retrieved"], last["kept"]),
        },
        {"end": "the chain is enough, the answer is written", "continue": "another seed question is asked"},
        "end" if verdict.holds else "continue",
    )
    return said.decision == "end"
