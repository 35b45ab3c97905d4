"""Writes the sparse half of an index: the files of bm25s, built on disk.

bm25s builds its matrix in memory, which takes several times the size of the texts. Here the words of each row are
counted and put into one file for each range of words; then each range is sorted and scored by itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stores.arrays import ArrayWriter
from stores.sparse import K1, B
from stores.words import Words

RANGE = 1 << 21
"""Occurrences of words in a range, at most five quarters of it; a word with more than a quarter has its own range."""
PIECE = 1 << 18
"""Scores calculated at a time."""
_COUNT = np.dtype([("word", np.uint32), ("row", np.uint32), ("times", np.uint32)])


def write_sparse(folder: Path, words: Words) -> None:
    """Write the sparse half of an index: titles for matching in queries, and BM25 scores unless there are no words.

    Every score is that of bm25s, to the last bit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(words.names.hashes, kind="stable")
    np.save(folder / "names.npy", words.names.hashes[order])
    np.save(folder / "named_rows.npy", words.names.rows[order].astype(np.int64))
    if not words.distinct:
        return
    first_words = _ranges(words)
    frequencies = _distribute(words, first_words)
    _save_parameters(folder, frequencies, len(words.lengths))
    with (folder / "vocab.index.json").open("w", encoding="utf-8") as file:
        for number, word in enumerate(words.vocabulary()):
            file.write(f"{',' if number else '{'}{json.dumps(word, ensure_ascii=False)}:{number}")
        file.write("}")
    with (
        ArrayWriter(folder / "data.csc.index.npy", np.float32) as data,
        ArrayWriter(folder / "indices.csc.index.npy", np.int32) as rows,
    ):
        for path, size in zip(_files(words, first_words), np.diff(first_words), strict=True):
            for counts in _sorted_pieces(path) if size > 1 else _pieces(path):
                data.append(_scores(counts, frequencies, words.lengths))
                rows.append(counts["row"])
            path.unlink()


def _ranges(words: Words) -> NDArray[np.int64]:
    """The first word of each range, and after the last one the number of words."""
    occurrences = np.zeros(words.distinct, np.int64)
    for chunk in words.chunks():
        numbers, times = np.unique(chunk.numbers, return_counts=True)
        occurrences[numbers] += times
    before = np.cumsum(occurrences) - occurrences
    starts = np.diff(before // RANGE, prepend=-1) > 0
    frequent = occurrences > RANGE // 4
    starts |= frequent
    starts[1:] |= frequent[:-1]
    return np.append(np.flatnonzero(starts), words.distinct)


def _files(words: Words, first_words: NDArray[np.int64]) -> list[Path]:
    return [words.folder / f"counts-{number}" for number in range(len(first_words) - 1)]


def _distribute(words: Words, first_words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the words of each row into the files of their ranges; returns the number of rows with each word."""
    frequencies = np.zeros(words.distinct, np.int64)
    files = _files(words, first_words)
    for path in files:
        path.touch()
    for chunk in words.chunks():
        rows = np.repeat(np.arange(chunk.rows.start, chunk.rows.stop), chunk.lengths)
        keys, times = np.unique(chunk.numbers.astype(np.int64) << 32 | rows, return_counts=True)
        counts = np.empty(len(keys), _COUNT)
        counts["word"], counts["row"], counts["times"] = keys >> 32, keys & 0xFFFFFFFF, times
        numbers, holders = np.unique(counts["word"], return_counts=True)
        frequencies[numbers] += holders
        ends = np.searchsorted(counts["word"], first_words)
        for path, (start, end) in zip(files, pairwise(ends.tolist()), strict=True):
            if start < end:
                with path.open("ab") as file:
                    counts[start:end].tofile(file)
    return frequencies


def _pieces(path: Path) -> Iterator[NDArray[np.void]]:
    """The counts of a range of one word, whose rows are in order."""
    with path.open("rb") as file:
        while len(counts := np.fromfile(file, _COUNT, PIECE)):
            yield counts


def _sorted_pieces(path: Path) -> Iterator[NDArray[np.void]]:
    """The counts of a range by word; the rows of each are in order already."""
    counts = np.fromfile(path, _COUNT)
    counts = counts[np.argsort(counts["word"], kind="stable")]
    for start in range(0, len(counts), PIECE):
        yield counts[start : start + PIECE]


def _scores(
    counts: NDArray[np.void], frequencies: NDArray[np.int64], lengths: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """BM25 scores in the order and the precision of bm25s, by Lucene's formula."""
    mean = np.float64(int(lengths.sum(dtype=np.int64)) / len(lengths))
    times = counts["times"].astype(np.float32)
    idf = _idf(frequencies[counts["word"]], len(lengths))
    scores: NDArray[np.float64] = idf * (times / (K1 * ((1 - B) + B * lengths[counts["row"]] / mean) + times))
    return scores


def _idf(frequencies: NDArray[np.int64], total: int) -> NDArray[np.float32]:
    """Inverse document frequencies. Python's logarithm: numpy's may differ in the last bit."""
    distinct, places = np.unique(frequencies, return_inverse=True)
    found = np.array([math.log(1 + (total - n + 0.5) / (n + 0.5)) for n in distinct.tolist()], np.float32)
    return found[places]


def _save_parameters(folder: Path, frequencies: NDArray[np.int64], rows: int) -> None:
    """Write what bm25s keeps beside the matrix and the vocabulary."""
    import bm25s

    starts = np.zeros(len(frequencies) + 1, np.int64)
    np.cumsum(frequencies, out=starts[1:])
    empty = bm25s.BM25(k1=K1, b=B, method="lucene")
    empty.scores = {"data": np.empty(0), "indices": np.empty(0), "indptr": starts, "num_docs": rows}
    empty.vocab_dict, empty.nonoccurrence_array = {}, None
    empty.save(folder, show_progress=False)
