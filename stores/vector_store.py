"""Vector store protocols: the dense half of an index.

To add a store, write classes like those of `stores.chroma`, and add a line to `vector_stores`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from inference.base_url import split_urls
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
    """Stores the vectors of one version of an index, or of one of its shards, in its own folder or on a server.

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


def vector_stores(manifest: Manifest, version: Path) -> list[VectorStore]:
    """The store of each shard of a version, by its manifest; the shards take turns on several servers.

    Args:
        manifest: Manifest of the version; it need not be written yet.
        version: Its folder.
    """
    if manifest.shards == 1:
        return [Chroma(version / "dense", manifest.chroma_url, manifest.collection)]
    urls = split_urls(manifest.chroma_url) or [""]
    return [
        Chroma(version / "dense" / str(n), urls[n % len(urls)], f"{manifest.collection}-{n}")
        for n in range(manifest.shards)
    ]
