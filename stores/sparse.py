"""The sparse half: BM25 over stemmed words (bm25s)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TOKENIZER", "Ranking", "Sparse", "best", "tokenize"]

TOKENIZER = "words+porter2/1"
"""Names what `tokenize` does; changes whenever its output does, so that no index is searched with other tokens."""
TITLE_WEIGHT = 2
"""How often a title counts beside its text."""
K1, B = 1.5, 0.75

Ranking = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows of the index, best first, and their scores."""

_TOKEN = re.compile(
    # Scripts without spaces, and emoji, are taken a character at a time.
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
"""Words of English grammar and questions; `d ll m re s t ve` are what an apostrophe leaves."""


def tokenize(text: str) -> list[str]:
    """Words of a text as the index has them, in order: case, accents and endings removed, stop words dropped.

    Corpus and queries both go through here.
    """
    text = text.casefold()
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        bare = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M"))
        text = unicodedata.normalize("NFC", bare)
    return [_stem(word) for word in _TOKEN.findall(text) if word not in _STOP_WORDS]


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


class Sparse:
    """BM25 scores of a corpus, computed beforehand and read from memory-mapped files. Immutable, thread-safe."""

    def __init__(self, folder: Path) -> None:
        import bm25s

        # Without a single word in the corpus there is nothing to load.
        self._scorer = bm25s.BM25.load(folder, mmap=True) if (folder / "params.index.json").exists() else None

    @staticmethod
    def build(folder: Path, titles_and_texts: Iterable[tuple[str, str]]) -> None:
        """Write the half of an index; row i is the i-th pair."""
        import bm25s

        vocabulary: dict[str, int] = {}
        rows: list[list[int]] = []
        for title, text in titles_and_texts:
            words = tokenize(title) * TITLE_WEIGHT + tokenize(text)
            rows.append([vocabulary.setdefault(word, len(vocabulary)) for word in words])
        folder.mkdir(parents=True, exist_ok=True)
        if vocabulary:
            scorer = bm25s.BM25(k1=K1, b=B, method="lucene")
            scorer.index((rows, vocabulary), create_empty_token=False, show_progress=False)
            scorer.save(folder, show_progress=False)

    def search(self, query: str, k: int) -> Ranking:
        """The k best rows; fewer where fewer share a word with the query. Ties go to the lower row."""
        if self._scorer is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        known = self._scorer.vocab_dict
        words = [known[word] for word in tokenize(query) if word in known]
        if not words:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        scores = self._scorer.get_scores_from_ids(words)
        return best(scores, k)


def best(scores: NDArray[np.float32], k: int) -> Ranking:
    """The k highest of the positive scores, highest first; equal ones in row order, also at the cut."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        bound = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= bound]
    order = np.lexsort((rows, -scores[rows]))[:k]
    return rows[order], scores[rows[order]]
