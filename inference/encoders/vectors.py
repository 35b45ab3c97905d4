"""The encoder protocol: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Shape (texts, dimension)."""


class Encoder(Protocol):
    """Turns passages and queries into vectors whose dot product is their similarity. Thread-safe."""

    @property
    def id(self) -> str:
        """Identifies the vector space: an index built under one id can't be searched under another."""

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, in the order given."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, in the order given."""


def unit(vectors: Vectors) -> Vectors:
    """Vectors normalised to unit length (a zero vector stays zero)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled
