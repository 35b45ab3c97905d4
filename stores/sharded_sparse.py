"""The sparse half of an index in several shards: BM25 with the statistics of the whole corpus."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.languages import ENGLISH
from stores.ranking import Ranking, best, merged
from stores.shards import Shards
from stores.sparse import K1, B, Sparse, Words, among, number_words, save_names


class _Part(NamedTuple):
    """BM25 scores of a shard in compressed columns, one a word of the whole corpus."""

    data: NDArray[np.float32]
    holders: NDArray[np.int32]
    """Places of the rows that have the word, ascending."""
    starts: NDArray[np.int64]

    def column(self, number: int) -> slice:
        """Where a word's scores are."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))


class ShardedSparse(Sparse):
    """Finds what `Sparse` finds, with the same scores: words, document frequencies, number of passages and mean length
    are those of the whole corpus.

    Args:
        folder: Folder of its files.
        shards: The rows of each shard.
        language: Language of the passages.
    """

    def __init__(self, folder: Path, shards: Shards, language: str = ENGLISH) -> None:
        self._language = language
        words: list[str] = json.loads((folder / "vocabulary.json").read_text("utf-8"))
        self._vocabulary = {word: number for number, word in enumerate(words)}
        self._frequencies = np.load(folder / "frequencies.npy")
        self._names = np.load(folder / "names.npy")
        self._named_rows = np.load(folder / "named_rows.npy")
        self._shards = shards
        self._parts = [
            _Part(*(np.load(folder / str(n) / f"{name}.npy", mmap_mode="r") for name in _Part._fields))
            for n in range(len(shards.rows))
        ]

    @staticmethod
    def build_shards(
        folder: Path, titles_and_texts: Iterable[tuple[str, str]], shards: Shards, language: str = ENGLISH
    ) -> Words:
        """Write the sparse half of an index; row i is the i-th pair. Returns the corpus's words."""
        words = number_words(titles_and_texts, partial(array, "I"), language)
        save_names(folder, words)
        (folder / "vocabulary.json").write_text(json.dumps(list(words.vocabulary), ensure_ascii=False), "utf-8")
        # Each shard is counted twice: the counts of all at once would take several times the memory of the words.
        frequencies = np.zeros(len(words.vocabulary), np.int64)
        for rows in shards.rows:
            frequencies += np.bincount(_counts(words, rows)[0], minlength=len(words.vocabulary))
        np.save(folder / "frequencies.npy", frequencies)
        mean = sum(map(len, words.rows)) / max(len(words.rows), 1)
        idf = _idf(frequencies, len(words.rows))
        for number, rows in enumerate(shards.rows):
            numbers, places, times, lengths = _counts(words, rows)
            times = times.astype(np.float32)
            # The order and the precision of bm25s, so that every score is the same to the last bit.
            scores = idf[numbers] * (times / (K1 * ((1 - B) + B * lengths[places] / np.float64(mean)) + times))
            part = folder / str(number)
            part.mkdir()
            np.save(part / "data.npy", scores.astype(np.float32))
            np.save(part / "holders.npy", places.astype(np.int32))
            starts = np.zeros(len(words.vocabulary) + 1, np.int64)
            np.cumsum(np.bincount(numbers, minlength=len(words.vocabulary)), out=starts[1:])
            np.save(part / "starts.npy", starts)
        return words

    def search(self, query: str, k: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """The top k rows of all shards; see `Sparse.search`."""
        words, numbers = self._known(query)
        named = list(self._named(words)) if numbers else []
        found: list[Ranking] = []
        for number, part in enumerate(self._parts if numbers else []):
            scores = np.zeros(len(self._shards.rows[number]), np.float32)
            for word in numbers:
                column = part.column(word)
                scores[part.holders[column]] += part.data[column]
            for rows, bonus in named:
                places = self._shards.places(number, rows)
                scores[places[places >= 0]] += bonus
            own = self._shards.rows[number]
            places, scores = best(
                scores, k, np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed[own])
            )
            found.append((own[places], scores))
        return merged(found, k)

    def _has(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), bool)
        for shard, part in enumerate(self._parts):
            places = self._shards.places(shard, rows)
            found |= (places >= 0) & among(places, part.holders[part.column(number)])
        return found

    def _idf(self, number: int) -> float:
        return math.log(1 + self._shards.total / int(self._frequencies[number]))


def _counts(words: Words, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Words, places and times of each word in each of these rows, by word and place; and the length of each row."""
    texts = [words.rows[row] for row in rows.tolist()]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    numbers = np.fromiter(chain.from_iterable(texts), np.int64, int(lengths.sum()))
    keys, times = np.unique(numbers << 32 | np.repeat(np.arange(len(texts)), lengths), return_counts=True)
    return keys >> 32, keys & 0xFFFFFFFF, times, lengths


def _idf(frequencies: NDArray[np.int64], total: int) -> NDArray[np.float32]:
    """BM25's inverse document frequency of each word. Python's logarithm: numpy's may differ in the last bit."""
    by_frequency = {n: math.log(1 + (total - n + 0.5) / (n + 0.5)) for n in np.unique(frequencies).tolist()}
    return np.array([by_frequency[n] for n in frequencies.tolist()], np.float32)
