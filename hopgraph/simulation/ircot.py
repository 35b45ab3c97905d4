"""Perfect agents of IRCoT."""

from __future__ import annotations

from hopgraph.simulation.answering import think_and_answer
from hopgraph.simulation.kit import Role
from hopgraph.simulation.reasoning import reason

__all__ = ["ROLES"]


ROLES: dict[str, Role] = {
    "reasoner": reason,
    "generator": think_and_answer,
}
"""By node."""
