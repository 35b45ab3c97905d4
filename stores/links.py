"""Links between passages: a passage names the title of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.arrays import ArrayWriter
from stores.titles import Titles
from stores.words import Chunk, Words

MOST = 1_000
"""Links that a name may make: the passages that name it times those titled with it. Above, it makes none."""
_ROWS = 1 << 16
"""Rows whose mentions are read at a time."""


class Mention(NamedTuple):
    """A name in a passage's text."""

    links: int
    """Links that the name makes in the whole index, from 1; a rare name makes few."""
    rows: NDArray[np.int64]
    """The passages with this title, ascending."""


class Links:
    """The names in each passage, in memory-mapped files. Immutable, thread-safe.

    They follow from the passages alone: an index built in pieces has the links of one built at once.
    """

    def __init__(self, folder: Path) -> None:
        def load(name: str) -> NDArray[np.int64]:
            found: NDArray[np.int64] = np.load(folder / f"{name}.npy", mmap_mode="r")
            return found

        self._starts, self._names = load("starts"), load("names")
        self._title_starts, self._titled, self._counts = load("title_starts"), load("titled"), load("counts")

    def of(self, row: int) -> list[Mention]:
        """The names in a passage's text that are titles of others, in order of their first place."""
        part = slice(int(self._starts[row]), int(self._starts[row + 1]))
        return [
            Mention(int(self._counts[n]), self._titled[self._title_starts[n] : self._title_starts[n + 1]])
            for n in self._names[part].tolist()
        ]


def write_links(folder: Path, words: Words) -> None:
    """Write the links of a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    titles = Titles(words.names)
    known = titles.numbers >= 0
    names = _Names(titles.numbers[known], words.names.rows[known])
    titled = np.bincount(names.numbers, minlength=titles.count)
    np.save(folder / "title_starts.npy", _starts(titled))
    np.save(folder / "titled.npy", names.rows[np.argsort(names.numbers, kind="stable")].astype(np.int64))

    mentioning = np.zeros(titles.count, np.int64)
    lengths = np.zeros(len(words.lengths), np.int64)
    mentions = words.folder / "mentions"
    with mentions.open("wb") as file:
        for chunk in words.chunks():
            found = _mentions(chunk, titles, names)
            found.numbers.astype(np.uint32).tofile(file)
            np.add.at(mentioning, found.numbers, 1)
            lengths[chunk.rows] = np.bincount(found.rows - chunk.rows.start, minlength=len(chunk.lengths))
    counts = mentioning * titled
    np.save(folder / "counts.npy", np.minimum(counts, MOST + 1).astype(np.uint16))

    with mentions.open("rb") as file, ArrayWriter(folder / "names.npy", np.uint32) as kept:
        for start in range(0, len(lengths), _ROWS):
            part = slice(start, min(start + _ROWS, len(lengths)))
            numbers = np.fromfile(file, np.uint32, int(lengths[part].sum()))
            links = counts[numbers] <= MOST
            kept.append(numbers[links])
            rows = np.repeat(np.arange(part.start, part.stop), lengths[part])[links]
            lengths[part] = np.bincount(rows - start, minlength=part.stop - start)
    np.save(folder / "starts.npy", _starts(lengths))


class _Names(NamedTuple):
    """Numbers of titles, each with a row."""

    numbers: NDArray[np.integer[Any]]
    rows: NDArray[np.integer[Any]]
    """Ascending."""


def _mentions(chunk: Chunk, titles: Titles, names: _Names) -> _Names:
    """The distinct titles in the text of each row, in their order, without its own ones."""
    ends = np.cumsum(chunk.lengths, dtype=np.int64)
    places = np.arange(len(chunk.numbers))
    room = np.repeat(ends, chunk.lengths) - places
    room[places < np.repeat(ends - chunk.lengths + chunk.titles, chunk.lengths)] = 0
    found = titles.find(chunk.numbers, room)
    rows = chunk.rows.start + np.searchsorted(ends, found.starts, "right")
    pairs = rows << 32 | found.numbers
    own = slice(*np.searchsorted(names.rows, [chunk.rows.start, chunk.rows.stop]).tolist())
    owned = names.rows[own].astype(np.int64) << 32 | names.numbers[own]
    distinct, first = np.unique(pairs, return_index=True)
    first = np.sort(first[~np.isin(distinct, owned)])
    return _Names(found.numbers[first], rows[first])


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each list begins in all of them put together, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
