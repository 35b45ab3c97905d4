"""Vector store protocols: the dense half of an index.

To add a store, write classes like those of `stores.chroma`, and add a line to `vector_store`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from inference.encoders.vectors import Vectors
from stores.chroma import Chroma

if TYPE_CHECKING:
    from stores.manifest import Manifest
    from stores.ranking import Ranking


class OpenVectors(Protocol):
    """The vectors of one version of an index, open for searching. Thread-safe, immutable."""

    def __len__(self) -> int:
        """Number of vectors."""

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """The k nearest rows by inner product with a vector of shape (dimension,), best first, and the products.

        With `allowed`, of shape (rows,), the k nearest of these; at least k are.
        """


class VectorStore(Protocol):
    """Stores the vectors of one version of an index, in its own folder or on a server.

    All methods raise StoreError, or EndpointError if the store is a server.
    """

    name: str
    """For messages."""

    def build(self, batches: Iterable[Vectors]) -> None:
        """Write the vectors; row i is the i-th vector across all batches."""

    def open(self) -> OpenVectors:
        """Open the vectors that `build` wrote."""

    def drop(self) -> None:
        """Delete data outside the folder; idempotent."""


def vector_store(manifest: Manifest, version: Path) -> VectorStore:
    """The store of a version, by its manifest.

    Args:
        manifest: Manifest of the version; it need not be written yet.
        version: Its folder.
    """
    return Chroma(version / "dense", manifest.chroma_url, manifest.collection)
