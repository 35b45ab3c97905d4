"""Links between passages: a passage names the title of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.sparse import LONGEST_NAME, Name, Words

MOST = 1_000
"""Links that a name may make: the passages that name it times those titled with it. Above, it makes none."""


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

    @staticmethod
    def build(folder: Path, words: Words) -> None:
        """Write the links of a corpus. In a text, of overlapping names the first and longest counts."""
        numbers: dict[Name, int] = {}
        titled: list[list[int]] = []
        for row, names in enumerate(words.names):
            for name in sorted(names):
                number = numbers.setdefault(name, len(titled))
                if number == len(titled):
                    titled.append([])
                titled[number].append(row)
        longest: dict[int, int] = {}
        for name in numbers:
            longest[name[0]] = max(longest.get(name[0], 0), min(len(name), LONGEST_NAME))
        found: list[list[int]] = []
        counts = np.zeros(len(titled), np.int64)
        for names, numbered, start in zip(words.names, words.rows, words.starts, strict=True):
            own = {numbers[name] for name in names}
            found.append([number for number in _mentions(numbered[start:], numbers, longest) if number not in own])
            counts[found[-1]] += 1
        counts *= np.array([len(rows) for rows in titled], np.int64)
        folder.mkdir(parents=True, exist_ok=True)
        kept = [[number for number in mentioned if counts[number] <= MOST] for mentioned in found]
        np.save(folder / "starts.npy", _starts(kept))
        np.save(folder / "names.npy", np.array([number for mentioned in kept for number in mentioned], np.uint32))
        np.save(folder / "title_starts.npy", _starts(titled))
        np.save(folder / "titled.npy", np.array([row for rows in titled for row in rows], np.int64))
        np.save(folder / "counts.npy", np.minimum(counts, MOST + 1).astype(np.uint16))

    def of(self, row: int) -> list[Mention]:
        """The names in a passage's text that are titles of others, in order of their first place."""
        part = slice(int(self._starts[row]), int(self._starts[row + 1]))
        return [
            Mention(int(self._counts[n]), self._titled[self._title_starts[n] : self._title_starts[n + 1]])
            for n in self._names[part].tolist()
        ]


def _mentions(text: Sequence[int], numbers: dict[Name, int], longest: dict[int, int]) -> list[int]:
    """Distinct numbers of the names in a text, in order."""
    found: dict[int, None] = {}
    done = 0
    for place, word in enumerate(text):
        if place < done or word not in longest:
            continue
        for end in range(min(place + longest[word], len(text)), place, -1):
            number = numbers.get(tuple(text[place:end]))
            if number is not None:
                found[number] = None
                done = end
                break
    return list(found)


def _starts(lists: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    """Where each list begins in all of them put together, and the end of the last."""
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)
