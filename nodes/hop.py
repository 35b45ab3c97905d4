"""Answers of hops: one from its own passages (HANRAG, Alg. 1; Self-Ask), and the only one as the run's."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.chain import Hop, chain_evidence
from nodes.generator import Answer, is_abstention
from nodes.hanrag.state import HanState
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.state import Node, PassageRef, RunError
from nodes.kit.steps import step

__all__ = ["conclude_hop", "hop_generator"]


def hop_generator(prompt: str) -> Node:
    """A node that answers the hop's question from the passages judged relevant, which ends the hop.

    If none is relevant, the top one is kept and the hop is flagged; where nothing is judged, all are. If none was
    found, nothing is asked. An answer that can't be read is none, and the hop says why.

    Args:
        prompt: Name of the prompt; it is given `question` and `evidence`.
    """

    async def generator(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        kept, flagged = _kept(state)
        at = f"{state['at']}/generator"
        asked = None
        if kept:
            passages = await fetch(state, [ref["id"] for ref in kept])
            asked = await ask_model(
                runtime,
                prompt,
                Answer,
                {"question": quoted(state["seed"])},
                at=at,
                items=Items(
                    "evidence", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
                ),
                role="generator",
            )
        answer = plain(asked.value.answer) if asked and asked.value else ""
        problem = asked.problem if asked else ""
        hop = Hop(
            id=state["at"],
            question=state["seed"],
            retrieved=state["candidates"],
            relevance=state.get("judged", []),
            kept=[ref["id"] for ref in kept],
            flagged=flagged,
            answer="" if is_abstention(answer) else answer,
            problem=problem,
            ending=None,
            ended=False,
        )
        row = step(
            at,
            "answer",
            parent=state["at"],
            question=state["seed"],
            answer=hop["answer"],
            verdict="none judged relevant, the top passage was kept" if flagged else "" if kept else "nothing found",
            evidence=hop["kept"],
            calls=len(asked.calls) if asked else 0,
            truncated=asked.truncated if asked else 0,
            fallback=f"{problem}; there is no answer" if problem else asked.cut if asked else "",
        )
        return {"chain": [hop], "trajectory": [row], "ledger": asked.calls if asked else []}

    return generator


def _kept(state: Any) -> tuple[list[PassageRef], bool]:
    """The passages to answer from, best first, and whether that is the top one for want of a relevant one."""
    found = state["candidates"]
    judged = {row["id"]: row["relevant"] for row in state.get("judged", [])}
    kept = [ref for ref in found if judged.get(ref["id"], not judged)]
    return kept or found[:1], bool(found and not kept)


def conclude_hop() -> Node:
    """A node that makes the answer of the only hop the run's."""

    async def conclude(state: HanState, runtime: Runtime[Any]) -> dict[str, Any]:
        [hop] = state["chain"]
        update: dict[str, Any] = {
            "answer": hop["answer"],
            "status": "answered" if hop["answer"] else "unanswerable",
            "evidence": chain_evidence(state),
        }
        if hop["problem"]:
            update |= {
                "status": "failed",
                "error": RunError(kind="model_output", message=hop["problem"], node="generator"),
            }
        return update

    return conclude
