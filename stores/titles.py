"""Finds titles in texts: a trie of word numbers in sorted arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.sparse import LONGEST_NAME
from stores.words import Names


class Found(NamedTuple):
    """Titles in a text."""

    starts: NDArray[np.int64]
    """The first word of each, ascending."""
    numbers: NDArray[np.int64]
    """The number of each title."""


class _Level(NamedTuple):
    """The nodes of the trie at a depth."""

    keys: NDArray[np.int64]
    """Ascending: the node above times 2**32, plus the word. Its place is the node's number at this depth."""
    titles: NDArray[np.int32]
    """The title that ends at each node, or -1."""


class Titles:
    """The distinct titles of a corpus, of up to `LONGEST_NAME` words."""

    def __init__(self, names: Names) -> None:
        self.count = 0
        """Number of distinct titles."""
        self.numbers = np.full(len(names.lengths), -1, np.int32)
        """Number of each of the given ones; -1 if it is too long."""
        self._levels: list[_Level] = []
        starts = np.cumsum(names.lengths, dtype=np.int64) - names.lengths
        nodes = np.zeros(len(starts), np.uint32)
        within = np.flatnonzero(names.lengths <= LONGEST_NAME)
        while len(within):
            depth = len(self._levels)
            keys, nodes[within] = np.unique(
                nodes[within].astype(np.int64) << 32 | names.numbers[starts[within] + depth], return_inverse=True
            )
            ended = within[names.lengths[within] == depth + 1]
            ends, places = np.unique(nodes[ended], return_inverse=True)
            self.numbers[ended] = self.count + places
            titles = np.full(len(keys), -1, np.int32)
            titles[ends] = np.arange(self.count, self.count + len(ends))
            self.count += len(ends)
            self._levels.append(_Level(keys, titles))
            within = within[names.lengths[within] > depth + 1]

    def find(self, words: NDArray[np.uint32], room: NDArray[np.int64]) -> Found:
        """Titles in texts; of overlapping ones the first and longest counts.

        Args:
            words: The numbers of the words of texts.
            room: For each word, the words from it to the end of its text; 0 for words that begin no title.
        """
        titles = np.full(len(words), -1)
        ends = np.zeros(len(words), np.int64)
        places = np.flatnonzero(room > 0)
        nodes = np.zeros(len(places), np.int64)
        for depth, level in enumerate(self._levels):
            keys = nodes << 32 | words[places + depth]
            nodes = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
            known = level.keys[nodes] == keys
            places, nodes = places[known], nodes[known]
            found = level.titles[nodes]
            ended = places[found >= 0]
            titles[ended] = found[found >= 0]
            ends[ended] = ended + depth + 1
            more = room[places] > depth + 1
            places, nodes = places[more], nodes[more]
        starts = np.flatnonzero(titles >= 0)
        chosen, done = [], 0
        for start, end in zip(starts.tolist(), ends[starts].tolist(), strict=True):
            if start >= done:
                chosen.append(start)
                done = end
        first = np.array(chosen, np.int64)
        return Found(first, titles[first])
