"""The perfect agent of Iter-RetGen."""

from __future__ import annotations

from hopgraph.simulation.answering import think_and_answer
from hopgraph.simulation.kit import Role

ROLES: dict[str, Role] = {
    "drafter": think_and_answer,
}
