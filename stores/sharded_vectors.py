"""The dense half of an index in several shards, searched side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stores.ranking import Ranking, merged
from stores.shards import Shards

if TYPE_CHECKING:
    from stores.vector_store import OpenVectors


class ShardedVectors:
    """The vectors of one version of an index, open. Thread-safe, immutable.

    Args:
        parts: The open vectors of each shard.
        shards: The rows of each shard.
    """

    def __init__(self, parts: Sequence[OpenVectors], shards: Shards) -> None:
        self._parts = parts
        self._shards = shards
        self._threads = ThreadPoolExecutor(len(parts), thread_name_prefix="shard")

    def __len__(self) -> int:
        return sum(self._threads.map(len, self._parts))

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """The k nearest of the allowed rows of all shards, and their inner products with the vector."""

        def nearest(part: OpenVectors, rows: NDArray[np.int64]) -> Ranking:
            own = None if allowed is None else allowed[rows]
            count = len(rows) if own is None else int(own.sum())
            if not count:
                return np.empty(0, np.int64), np.empty(0, np.float32)
            places, scores = part.search(vector, min(k, count), own)
            return rows[places], scores

        return merged(list(self._threads.map(nearest, self._parts, self._shards.rows)), k)
