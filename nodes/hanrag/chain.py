"""Tasks of HANRAG's chain: a question for ANRAG to answer (Alg. 1)."""

from __future__ import annotations

from langgraph.types import Send

from nodes.chain import hop_id, next_hop
from nodes.hanrag.state import AnragInput, HanState

__all__ = ["send_hop"]


def send_hop(state: HanState, question: str, number: int | None = None) -> Send:
    """A task that answers one question by ANRAG; without a number, the next one of the chain."""
    at = hop_id(number or next_hop(state))
    return Send(
        "anrag",
        AnragInput(
            at=at, seed=question, given=state["given"], index=state["index"], settings=state.get("settings", {})
        ),
    )
