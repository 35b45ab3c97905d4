"""The perfect agent of Iter-RetGen."""

from __future__ import annotations

from hopgraph.simulation.answering import think_and_answer
from hopgraph.simulation.kit import Role

__all__ = ["ROLES"]


ROLES: dict[str, Role] = {
    "drafter": think_and_answer,
}
"""By node."""
