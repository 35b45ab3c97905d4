"""Collector: the trajectory of all steps and the evidence they cite (PAR-RAG, Alg. 1, line 19)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block
from nodes.kit.state import Node, PassageRef
from nodes.parrag.plan import chosen, trajectory
from nodes.parrag.state import ParState

__all__ = ["collector", "trajectory_blocks"]


def collector() -> Node:
    """A node that makes the passages cited by the chosen answers the run's evidence, in the order of the steps."""

    async def collector(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        cited: dict[str, PassageRef] = {}
        for plan_step in state["plan"]:
            attempt = chosen(plan_step)
            if attempt is not None:
                for ref in attempt["documents"]:
                    if ref["id"] in attempt["cited"]:
                        cited.setdefault(ref["id"], ref)
        return {"evidence": list(cited.values())}

    return collector


async def trajectory_blocks(state: ParState, context: Any) -> list[str]:
    """What the final answer is written from: the steps with their answers, then the passages they cite."""
    passages = await fetch(state, [ref["id"] for ref in state["evidence"]])
    return [*trajectory(state), *(passage_block(number, passage) for number, passage in enumerate(passages, start=1))]
