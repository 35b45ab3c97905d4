"""State of Adaptive Retrieval."""

from __future__ import annotations

from nodes.kit.state import State


class AdaptiveRetrievalState(State, total=False):
    """Adaptive Retrieval: whether the question is searched for."""

    retrieves: bool
