"""What keeps the vectors of an index and finds the nearest ones: the dense half of a search.

Another store is one file, with classes like those of `stores.chroma`, and a line in `vector_store`.
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

__all__ = ["OpenVectors", "VectorStore", "vector_store"]


class OpenVectors(Protocol):
    """The vectors of one version of an index, open for searching. Thread-safe; they never change."""

    def __len__(self) -> int:
        """How many there are."""

    def search(self, vector: NDArray[np.float32], k: int) -> Ranking:
        """The k nearest rows by inner product with a vector of shape (dimension,), best first, and the products."""


class VectorStore(Protocol):
    """Keeps the vectors of one version of an index, in a folder of its own or elsewhere.

    All methods raise StoreError, or EndpointError where the store is a server.
    """

    name: str
    """For messages."""

    def build(self, batches: Iterable[Vectors]) -> None:
        """Write the vectors; row i is the i-th one of all batches together."""

    def open(self) -> OpenVectors:
        """What `build` has written."""

    def drop(self) -> None:
        """Delete what lies outside the folder; what is not there is no error."""


def vector_store(manifest: Manifest, version: Path) -> VectorStore:
    """The store that a version's manifest names.

    Args:
        manifest: Of the version; it need not be written yet.
        version: Its folder.
    """
    return Chroma(version / "dense", manifest.chroma_url, manifest.collection)
