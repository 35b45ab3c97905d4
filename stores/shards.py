"""Shards of an index: which passages each of them holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MOST_SHARDS = 1024


def shard_of(passage_id: str, count: int) -> int:
    """Shard of a passage among `count`, from 0, by the hash of its id: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(passage_id.encode(), digest_size=8).digest(), "little") % count


class Shards:
    """The rows of each shard. A passage stays in its shard when others are added or removed.

    Args:
        shard_of_row: Shard of each row, from 0; shape (rows,).
        count: Number of shards.
    """

    def __init__(self, shard_of_row: NDArray[np.uint16], count: int) -> None:
        order = np.argsort(shard_of_row, kind="stable").astype(np.int64)
        ends = np.cumsum(np.bincount(shard_of_row, minlength=count))[:-1]
        self.rows: list[NDArray[np.int64]] = np.split(order, ends)
        """Rows of each shard, ascending. A row's place there is its row within the shard."""
        self.total = len(shard_of_row)

    @classmethod
    def write(cls, path: Path, ids: Iterable[Sequence[str]], count: int) -> Shards:
        """Assign rows to shards by their ids, and write the assignment.

        Args:
            path: The file.
            ids: Passage ids in row order, in chunks.
            count: Number of shards, up to `MOST_SHARDS`.
        """
        found = np.fromiter((shard_of(one, count) for chunk in ids for one in chunk), np.uint16)
        np.save(path, found)
        return cls(found, count)

    @classmethod
    def read(cls, path: Path, count: int) -> Shards:
        """The assignment that `write` wrote."""
        return cls(np.load(path), count)

    def places(self, shard: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each row's place in a shard, -1 for the rows of other shards."""
        own = self.rows[shard]
        if not len(own):
            return np.full(len(rows), -1)
        places = np.minimum(np.searchsorted(own, rows), len(own) - 1)
        return np.where(own[places] == rows, places, -1)
