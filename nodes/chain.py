"""A chain of questions and answers: written down for prompts, and the evidence it rests on (HANRAG, Self-Ask)."""

from __future__ import annotations

from typing import Any

from langgraph.types import Send

from nodes.rendering import quoted
from nodes.state import AnragInput, HanState, Hop, PassageRef

__all__ = ["chain_blocks", "chain_evidence", "hop_id", "next_hop", "send_hop", "written"]


def next_hop(state: Any) -> int:
    """Number of the hop after those of the chain, from 1."""
    return len(state["chain"]) + 1


def hop_id(number: int) -> str:
    """Id of a hop, which is that of its first step in the trajectory."""
    return f"root/{number}"


def send_hop(state: HanState, question: str, number: int | None = None) -> Send:
    """A task that answers one question by ANRAG; without a number, the next one of the chain."""
    at = hop_id(number or next_hop(state))
    return Send(
        "anrag",
        AnragInput(
            at=at, seed=question, given=state["given"], index=state["index"], settings=state.get("settings", {})
        ),
    )


def written(chain: list[Hop]) -> list[str]:
    """Questions with their answers, a line each."""
    return [
        f"{number}. {quoted(hop['question'])} Answer: {quoted(hop['answer']) or '(unknown)'}"
        for number, hop in enumerate(chain, start=1)
    ]


async def chain_blocks(state: HanState, context: Any) -> list[str]:
    """What the final answer is written from: questions and answers, not their passages (Sec. 3, Eqs. 5 and 9)."""
    return written(state["chain"])


def chain_evidence(state: Any) -> list[PassageRef]:
    """The passages that the answers were taken from, in the order of the chain."""
    kept: dict[str, PassageRef] = {}
    for hop in state["chain"]:
        for ref in hop["retrieved"]:
            if ref["id"] in hop["kept"]:
                kept.setdefault(ref["id"], ref)
    return list(kept.values())
