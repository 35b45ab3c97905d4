"""Perfect agents of Adaptive Retrieval."""

from __future__ import annotations

from hopgraph.simulation.answering import answer_from_passages
from hopgraph.simulation.kit import Role

ROLES: dict[str, Role] = {
    "generator": answer_from_passages,
    "reader": answer_from_passages,
}
