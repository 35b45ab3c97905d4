"""The reranker protocol: a query and texts in, relevance out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Scores:
    """Relevance of texts to a query."""

    values: list[float]
    """One for each text, in the order given; higher is more relevant. Scores of two models can't be compared."""
    model: str
    """The model that gave them."""
    tokens: int = 0
    """Tokens of all pairs of query and text; 0 if the server does not report them."""
    truncated: int = 0
    """Texts that were read only in part, since they exceed the model's context."""


class Reranker(Protocol):
    """Scores texts by their relevance to a query, each pair read together (a cross-encoder). Thread-safe."""

    @property
    def id(self) -> str:
        """Identifies the model."""

    def rerank(self, query: str, texts: Sequence[str]) -> Scores:
        """Scores of the texts.

        Raises:
            EndpointError: The server can't be used; `permanent` if it will not answer later either.
            InputError: The model's files can't be used.
        """
