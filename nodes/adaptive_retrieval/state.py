"""State of Adaptive Retrieval."""

from __future__ import annotations

from nodes.kit.state import State

__all__ = ["AdaptiveRetrievalState"]


class AdaptiveRetrievalState(State, total=False):
    """Adaptive Retrieval: whether the question is searched for."""

    retrieves: bool
