"""The words of a corpus as numbers, in temporary files: what the sparse half and the links of an index are made from.

In memory are 8 bytes a passage and 16 a title, whatever the length of the texts and the size of the vocabulary.
"""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.languages import ENGLISH
from stores.sparse import TITLE_WEIGHT, name_hash, tokenize
from stores.sqlite import select_in

CHUNK = 1 << 20
"""Words of a chunk, and the rest of its last row."""
_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)\s*\Z")


class Chunk(NamedTuple):
    """Consecutive rows."""

    rows: slice
    numbers: NDArray[np.uint32]
    """The words of all of them: of each row the title, `TITLE_WEIGHT` times, and the text."""
    lengths: NDArray[np.uint32]
    """Words of each row."""
    titles: NDArray[np.uint32]
    """How many of these are the title's."""


class Names(NamedTuple):
    """The titles of a corpus, and those without a disambiguation in parentheses; none is empty."""

    hashes: NDArray[np.uint64]
    """`name_hash` of each."""
    rows: NDArray[np.uint32]
    """The passage of each, ascending."""
    lengths: NDArray[np.uint32]
    """Words of each."""
    numbers: NDArray[np.uint32]
    """The words of all."""


class Words:
    """The words of a corpus, numbered in the order of their first occurrence.

    Args:
        folder: An empty folder for temporary files.
        titles_and_texts: Row i is the i-th pair.
        language: Their language.
    """

    def __init__(self, folder: Path, titles_and_texts: Iterable[tuple[str, str]], language: str = ENGLISH) -> None:
        self.folder = folder
        lengths, titles = array("I"), array("I")
        hashes, rows, name_lengths = array("Q"), array("I"), array("I")
        self._ends = [0]
        self._vocabulary = _Vocabulary(folder / "vocabulary.sqlite")
        texts, names = _Numbers(folder / "texts"), _Numbers(folder / "names")
        distinct: dict[str, int] = {}

        def end_chunk() -> None:
            numbers = self._vocabulary.numbers(list(distinct))
            texts.write(numbers)
            names.write(numbers)
            self._ends.append(len(lengths))
            distinct.clear()

        for row, (title, text) in enumerate(titles_and_texts):
            name = tokenize(title, language)
            words = name * TITLE_WEIGHT + tokenize(text, language)
            texts.add(words, distinct)
            lengths.append(len(words))
            titles.append(len(name) * TITLE_WEIGHT)
            bare = tokenize(_IN_PARENTHESES.sub("", title), language)
            for called in [name, bare] if bare != name else [name]:
                if called:
                    names.add(called, distinct)
                    hashes.append(name_hash(called))
                    rows.append(row)
                    name_lengths.append(len(called))
            if texts.waiting >= CHUNK:
                end_chunk()
        end_chunk()
        texts.close()
        names.close()
        self.lengths = np.asarray(lengths)
        """Words of each row, as in `Chunk`."""
        self._titles = np.asarray(titles)
        found = np.fromfile(folder / "names", np.uint32)
        self.names = Names(np.asarray(hashes), np.asarray(rows), np.asarray(name_lengths), found)

    @classmethod
    @contextmanager
    def within(
        cls, folder: Path, titles_and_texts: Iterable[tuple[str, str]], language: str = ENGLISH
    ) -> Iterator[Words]:
        """The words of a corpus, with temporary files in a folder until the end of the block."""
        with TemporaryDirectory(dir=folder, prefix="words-") as place:
            words = cls(Path(place), titles_and_texts, language)
            with closing(words._vocabulary):
                yield words

    @property
    def distinct(self) -> int:
        """Number of distinct words."""
        return self._vocabulary.count

    def vocabulary(self) -> Iterator[str]:
        """The distinct words, in the order of their numbers."""
        return self._vocabulary.words()

    def chunks(self) -> Iterator[Chunk]:
        """All rows, in order."""
        with (self.folder / "texts").open("rb") as file:
            for first, end in pairwise(self._ends):
                lengths = self.lengths[first:end]
                numbers = np.fromfile(file, np.uint32, int(lengths.sum()))
                yield Chunk(slice(first, end), numbers, lengths, self._titles[first:end])


class _Numbers:
    """Writes the numbers of words to a file; those of a chunk are numbers among the chunk's words first."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._chunk = array("I")

    @property
    def waiting(self) -> int:
        """Words that are not written yet."""
        return len(self._chunk)

    def add(self, words: Sequence[str], distinct: dict[str, int]) -> None:
        """Add words; new ones are added to the chunk's distinct ones."""
        self._chunk.extend([distinct.setdefault(word, len(distinct)) for word in words])

    def write(self, numbers: NDArray[np.uint32]) -> None:
        """End a chunk, given the number of each of its distinct words."""
        self._file.write(numbers[np.asarray(self._chunk)].data)
        self._chunk = array("I")

    def close(self) -> None:
        self._file.close()


class _Vocabulary:
    """Numbers of words, on disk."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000;"
            "CREATE TABLE words (number INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE); BEGIN"
        )
        self.count = 0

    def numbers(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """The number of each of these distinct words; new ones get the next numbers, in their order."""
        known = self._known(words)
        new = [word for word in words if word not in known]
        known.update(zip(new, range(self.count, self.count + len(new)), strict=True))
        self._db.executemany("INSERT INTO words VALUES (?, ?)", ((known[word], word) for word in new))
        self.count += len(new)
        return np.array([known[word] for word in words], np.uint32)

    def _known(self, words: Sequence[str]) -> dict[str, int]:
        def run(statement: str, values: Sequence[str]) -> list[tuple[str, int]]:
            return self._db.execute(statement, values).fetchall()

        return dict(select_in(run, "word, number FROM words", "word", words)) if self.count else {}

    def words(self) -> Iterator[str]:
        """All words, by number."""
        return (word for (word,) in self._db.execute("SELECT word FROM words ORDER BY number"))

    def close(self) -> None:
        self._db.close()
