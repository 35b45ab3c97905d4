"""Perfect agents of Adaptive-RAG."""

from __future__ import annotations

from hopgraph.simulation.answering import answer_from_passages, the_case, think_and_answer
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role
from hopgraph.simulation.reasoning import reason

__all__ = ["ROLES"]


def _complexity(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Adaptive-RAG: one fact takes one search."""
    return {"route": "single_step" if (len(the_case(prompt).facts) == 1) != errs else "multi_step"}


ROLES: dict[str, Role] = {
    "router": _complexity,
    "generator": answer_from_passages,
    "single_step_reader": answer_from_passages,
    "reasoner": reason,
    "multi_step_reader": think_and_answer,
}
"""By node."""
