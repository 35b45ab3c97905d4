"""A chain of questions and answers: its text in prompts, and its evidence (HANRAG, Self-Ask)."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from nodes.kit.rendering import UNKNOWN, query_key, quoted
from nodes.kit.state import PassageRef


class Relevance(TypedDict):
    """The relevance discriminator's verdict on a passage (HANRAG, App. A.3)."""

    id: str
    title: str
    probability: float | None
    """Of "relevant"; None if only the text of the verdict is available."""
    relevant: bool
    problem: str
    """Why the verdict can't be parsed; the passage is then kept."""


class Hop(TypedDict):
    """A question answered by ANRAG (HANRAG, Alg. 1)."""

    id: str
    """`root/1`, the id of its first step in the trajectory."""
    question: str
    """A seed question, a sub-question, or the question itself."""
    retrieved: list[PassageRef]
    relevance: list[Relevance]
    """In the order of `retrieved`; empty if nothing was judged."""
    kept: list[str]
    """Ids of the passages used for the answer."""
    flagged: bool
    """No passage was judged relevant, so the top one was kept."""
    answer: str
    """"" when there is none."""
    problem: str
    """Why the answer can't be parsed; else ""."""
    ending: float | None
    """Probability that the chain so far suffices; None if not judged, or judged by text only."""
    ended: bool


def next_hop(state: Any) -> int:
    """Number of the next hop, from 1."""
    return len(state["chain"]) + 1


def hop_id(number: int) -> str:
    """Id of a hop and of its first step in the trajectory."""
    return f"root/{number}"


def asked_before(question: str, chain: list[Hop]) -> bool:
    """Whether a hop has this question, whatever its case."""
    return query_key(question) in {query_key(hop["question"]) for hop in chain}


def written(chain: list[Hop]) -> list[str]:
    """Questions with their answers, a line each; a hop without an answer is `UNKNOWN`."""
    return [
        f"{number}. {quoted(hop['question'])} Answer: {quoted(hop['answer']) or UNKNOWN}"
        for number, hop in enumerate(chain, start=1)
    ]


async def chain_blocks(state: Any, context: Any) -> list[str]:
    """Input of the final answer: questions and answers, not their passages (Sec. 3, Eqs. 5 and 9)."""
    return written(state["chain"])


def chain_evidence(state: Any) -> list[PassageRef]:
    """The passages used for the answers, in the order of the chain."""
    kept: dict[str, PassageRef] = {}
    for hop in state["chain"]:
        for ref in hop["retrieved"]:
            if ref["id"] in hop["kept"]:
                kept.setdefault(ref["id"], ref)
    return list(kept.values())
