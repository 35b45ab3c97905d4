"""Perfect agents of IRCoT."""

from __future__ import annotations

from hopgraph.simulation.answering import reason, think_and_answer
from hopgraph.simulation.kit import Role

ROLES: dict[str, Role] = {
    "reasoner": reason,
    "generator": think_and_answer,
}
