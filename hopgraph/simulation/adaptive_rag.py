"""Perfect agents of Adaptive-RAG."""

from __future__ import annotations

from hopgraph.simulation.answering import answer_from_passages, reason, the_case, think_and_answer
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _complexity(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """A question of one fact takes a single step."""
    return {"route": "single_step" if (len(the_case(prompt).facts) == 1) != errs else "multi_step"}


ROLES: dict[str, Role] = {
    "router": _complexity,
    "generator": answer_from_passages,
    "single_step_reader": answer_from_passages,
    "reasoner": reason,
    "multi_step_reader": think_and_answer,
}
