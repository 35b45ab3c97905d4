"""HANRAG's chain: its hops as tasks for ANRAG (Alg. 1), and the end of a chain of one hop (Sec. 4.1)."""

from __future__ import annotations

from typing import Any

from langgraph.types import Send

from nodes.chain import chain_evidence, hop_id, next_hop
from nodes.hanrag.state import AnragInput, HanState
from nodes.kit.state import RunError


def send_hop(state: HanState, question: str, number: int | None = None, *, final: bool = False) -> Send:
    """A task in which ANRAG answers one question; by default it is the next hop of the chain."""
    at = hop_id(number or next_hop(state))
    task = AnragInput(
        at=at,
        seed=question,
        given=state["given"],
        index=state["index"],
        settings=state.get("settings", {}),
        final=final,
    )
    return Send("anrag", task)


async def conclude(state: HanState) -> dict[str, Any]:
    """Make the answer of the only hop the run's."""
    [hop] = state["chain"]
    problem = hop["problem"]
    return {
        "answer": hop["answer"],
        "status": "failed" if problem else "answered" if hop["answer"] else "unanswerable",
        "error": RunError(kind="model_output", message=problem, node="generator") if problem else None,
        "evidence": chain_evidence(state),
    }
