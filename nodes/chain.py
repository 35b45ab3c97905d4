"""A chain of questions and answers: written down for prompts, and the evidence it rests on (HANRAG, Self-Ask)."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from nodes.kit.rendering import quoted
from nodes.kit.state import PassageRef

__all__ = [
    "Hop",
    "Relevance",
    "chain_blocks",
    "chain_evidence",
    "hop_id",
    "next_hop",
    "written",
]


class Relevance(TypedDict):
    """What the relevance discriminator said of a passage (HANRAG, App. A.3)."""

    id: str
    title: str
    probability: float | None
    """Of "relevant"; None where only the text of the verdict was to be had."""
    relevant: bool
    problem: str
    """Why the verdict could not be read; the passage is kept then."""


class Hop(TypedDict):
    """A question answered by ANRAG (HANRAG, Alg. 1)."""

    id: str
    """`root/1`, the id of its first step in the trajectory."""
    question: str
    """A seed question, a sub-question, or the question itself."""
    retrieved: list[PassageRef]
    relevance: list[Relevance]
    """In the order of `retrieved`; empty when nothing was judged."""
    kept: list[str]
    """Ids of the passages that it was answered from."""
    flagged: bool
    """None was judged relevant, and the top one was kept."""
    answer: str
    """"" when there is none."""
    problem: str
    """Why the answer could not be read; "" when it could."""
    ending: float | None
    """Probability that the chain up to here is enough; None where nobody asked, or only the text was to be had."""
    ended: bool


def next_hop(state: Any) -> int:
    """Number of the hop after those of the chain, from 1."""
    return len(state["chain"]) + 1


def hop_id(number: int) -> str:
    """Id of a hop, which is that of its first step in the trajectory."""
    return f"root/{number}"


def written(chain: list[Hop]) -> list[str]:
    """Questions with their answers, a line each."""
    return [
        f"{number}. {quoted(hop['question'])} Answer: {quoted(hop['answer']) or '(unknown)'}"
        for number, hop in enumerate(chain, start=1)
    ]


async def chain_blocks(state: Any, context: Any) -> list[str]:
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
