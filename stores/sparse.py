"""The sparse half: BM25 over stemmed words (bm25s)."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError
from stores.languages import ENGLISH, LANGUAGES, stemmer, stop_words
from stores.manifest import index_again
from stores.ranking import Ranking, best

TITLE_WEIGHT = 2
"""Weight of the title's words, relative to the text's."""
K1, B = 1.2, 0.75
NAMED = 0.5
"""Bonus of a title that occurs in the query: this factor times the inverse document frequencies of its words."""
SPARSE = f"words+porter2/1 bm25(k1={K1},b={B},title={TITLE_WEIGHT},named={NAMED})"
"""Version of `tokenize` and `Sparse` for English."""
LONGEST_NAME = 12
"""Maximum words of a title matched in a query."""
LONGEST_QUERY = 512
"""Maximum distinct words of a query."""


_TOKEN = re.compile(
    # In scripts without spaces, and for emoji, each character is a token.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u2600-\u27bf\U0001f300-\U0001faff\U00020000-\U0003ffff]"
    r"|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_STOP_WORDS = frozenset(
    """
    a about after also am an and any are as at be been before being between both but by d did do does done during each
    for from had has have he her his how i if in into is it its ll m many me much my no not of on or our re s she such
    t than that the their then there these they this those to us ve was we were what when where which who whom whose
    why will with you your
    """.split()  # noqa: SIM905
)
"""Stop words: English function and question words, and the remains of contractions (`d ll m re s t ve`)."""


def tokenize(text: str, language: str = ENGLISH) -> list[str]:
    """Tokens of a text, in order: lower-cased, without accents, stemmed, without stop words.

    Used for both corpus and queries. English is stemmed without its accents, which are rare; the others need theirs.
    """
    if language != ENGLISH:
        if language == "tr":
            text = text.replace("I", "ı").replace("İ", "i")
        words = _TOKEN.findall(unicodedata.normalize("NFKC", text.casefold()))
        stops = stop_words(language)
        return [_bare(_stem(word, language)) for word in words if word not in stops]
    text = text.casefold()
    if not text.isascii():
        text = _bare(text)
    return [_stem(word) for word in _TOKEN.findall(text) if word not in _STOP_WORDS]


def _bare(text: str) -> str:
    """A text without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.category(c).startswith("M")))


def tokenizer_of(language: str) -> str:
    """Version of `tokenize` and `Sparse` for a language; an index built with another one is refused."""
    return SPARSE if language == ENGLISH else SPARSE.replace("porter2", LANGUAGES[language], 1)


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str = ENGLISH) -> str:
    return str(stemmer(language).stemWord(word))


def name_hash(words: Sequence[str]) -> int:
    """Hash of a title's words, 64 bits."""
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest(), "little")


class Sparse:
    """Precomputed BM25 scores of a corpus in memory-mapped files. Immutable, thread-safe.

    Repeated words of a query count once. A title that occurs verbatim in the query, such as the name of a person, place
    or work, gets a bonus; a disambiguation in parentheses, as in `Nevermind (album)`, is optional.
    """

    def __init__(self, folder: Path, language: str = ENGLISH) -> None:
        import bm25s

        if (folder / "frequencies.npy").exists():
            raise StoreError(f"{folder} is in shards, as an earlier version wrote it", hint=index_again(folder))
        self._language = language
        # A corpus without any word has nothing to load.
        self._scorer = bm25s.BM25.load(folder, mmap=True) if (folder / "params.index.json").exists() else None
        self._vocabulary: dict[str, int] = self._scorer.vocab_dict if self._scorer is not None else {}
        self._names = np.load(folder / "names.npy")
        self._named_rows = np.load(folder / "named_rows.npy")

    def search(self, query: str, k: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """The top k of the allowed rows that share a word with the query. Ties go to the lower row."""
        words, numbers = self._known(query)
        if self._scorer is None or not numbers:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        scores: NDArray[np.float32] = self._scorer.get_scores_from_ids(numbers)
        for rows, bonus in self._named(words):
            scores[rows] += bonus
        return best(scores, k, np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed))

    def coverage(self, query: str, rows: Sequence[int]) -> NDArray[np.float64]:
        """What of a query each row has, shape (known words of the query, rows).

        A word is worth its share of the inverse document frequencies of all known words, and 0 where the row lacks it.
        """
        _, numbers = self._known(query)
        found = np.zeros((len(numbers), len(rows)))
        if not numbers:
            return found
        for i, number in enumerate(numbers):
            found[i] = self._has(number, np.asarray(rows, np.int64)) * self._idf(number)
        return found / sum(map(self._idf, numbers))

    def titled(self, query: str, rows: Sequence[int]) -> list[bool]:
        """Whether each row's title occurs in the query."""
        words, _ = self._known(query)
        parts = [self._named_rows[low:high] for _, _, low, high in self._titles(words)]
        return [any(bool((part == row).any()) for part in parts) for row in rows]

    def _known(self, query: str) -> tuple[list[str], list[int]]:
        """Distinct words of a query, and the numbers of those in the corpus."""
        words = list(dict.fromkeys(tokenize(query, self._language)))[:LONGEST_QUERY]
        return words, [self._vocabulary[word] for word in words if word in self._vocabulary]

    def _titles(self, words: list[str]) -> Iterator[tuple[int, int, int, int]]:
        """Spans of the words that are titles, longest first at each start, and where their rows are."""
        spans = [
            (start, end)
            for start in range(len(words))
            for end in range(min(start + LONGEST_NAME, len(words)), start, -1)
        ]
        hashes = np.array([name_hash(words[start:end]) for start, end in spans], np.uint64)
        low = np.searchsorted(self._names, hashes, "left")
        high = np.searchsorted(self._names, hashes, "right")
        return ((*spans[i], int(low[i]), int(high[i])) for i in np.flatnonzero(low < high))

    def _named(self, words: list[str]) -> Iterator[tuple[NDArray[np.int64], float]]:
        """Rows whose title is in the query, and their bonus; of overlapping titles the first and longest counts."""
        done = 0
        for start, end, low, high in self._titles(words):
            if start >= done:
                yield self._named_rows[low:high], NAMED * sum(self._idf(self._vocabulary[w]) for w in words[start:end])
                done = end

    def _has(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows have a word of the corpus."""
        assert self._scorer is not None  # noqa: S101
        starts, holders = self._scorer.scores["indptr"], self._scorer.scores["indices"]
        return among(rows, holders[int(starts[number]) : int(starts[number + 1])])

    def _idf(self, number: int) -> float:
        """Inverse document frequency of a word of the corpus."""
        assert self._scorer is not None  # noqa: S101
        starts = self._scorer.scores["indptr"]
        return math.log(1 + self._scorer.scores["num_docs"] / int(starts[number + 1] - starts[number]))


def among(values: NDArray[np.int64], those: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Which values are among ascending ones."""
    if not len(those):
        return np.zeros(len(values), bool)
    found: NDArray[np.bool_] = those[np.minimum(np.searchsorted(those, values), len(those) - 1)] == values
    return found
