"""Collector: the trajectory of all steps and the evidence they cite (PAR-RAG, Alg. 1, line 19)."""

from __future__ import annotations

from typing import Any

from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_blocks
from nodes.kit.state import PassageRef
from nodes.parrag.plan import chosen, trajectory
from nodes.parrag.state import ParState


async def collector(state: ParState) -> dict[str, Any]:
    """Make the passages cited by the chosen answers the run's evidence, in the order of the steps."""
    cited: dict[str, PassageRef] = {}
    for attempt in filter(None, map(chosen, state["plan"])):
        for ref in attempt["documents"]:
            if ref["id"] in attempt["cited"]:
                cited.setdefault(ref["id"], ref)
    return {"evidence": list(cited.values())}


async def trajectory_blocks(state: ParState, context: Any) -> list[str]:
    """What the final answer is written from: the steps with their answers, then the passages they cite."""
    passages = await fetch(state, [ref["id"] for ref in state["evidence"]])
    return [*trajectory(state), *passage_blocks(passages)]
