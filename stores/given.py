"""Store of passages passed with a question, keyed by content, so that the state refers to them by id."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from inference.errors import StoreError
from inference.settings import get_settings
from stores.passages import Passage
from stores.sentences import split_sentences
from stores.sparse import tokenize
from stores.sqlite import select_in

PREFIX = "given-"
"""Prefix of given passages' ids."""


def put_given(passages: Sequence[Passage]) -> list[str]:
    """Store passages and return their ids, which depend only on title, text and sentences.

    Missing sentences are filled in.

    Raises:
        StoreError: The store can't be written.
    """
    rows = _rows(passages)
    with _table() as connection:
        connection.executemany("INSERT OR IGNORE INTO given VALUES (?, ?)", rows)
    return [key for key, _ in rows]


def given_ids(passages: Sequence[Passage]) -> list[str]:
    """The ids under which `put_given` stores passages."""
    return [key for key, _ in _rows(passages)]


def _rows(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    missing = [number for number, passage in enumerate(passages) if not passage.sentences]
    split = dict(zip(missing, split_sentences([passages[number].text for number in missing]), strict=True))
    rows = []
    for number, passage in enumerate(passages):
        row = json.dumps([passage.title, passage.text, list(passage.sentences) or split[number]])
        rows.append((PREFIX + hashlib.sha256(row.encode()).hexdigest()[:16], row))
    return rows


def get_given(ids: Sequence[str]) -> list[Passage]:
    """Passages by id, in the order of `ids`.

    Raises:
        StoreError: One of them is missing.
    """
    with _table() as connection:
        rows = dict(
            select_in(lambda *query: connection.execute(*query).fetchall(), "id, passage FROM given", "id", ids)
        )
    if missing := [key for key in ids if key not in rows]:
        raise StoreError(
            f"given passage {missing[0]} is not in {_path()}", hint="run the question again with its passages"
        )
    return [_passage(key, rows[key]) for key in ids]


def rank_given(query: str, passages: Sequence[Passage]) -> list[tuple[Passage, float]]:
    """Rank all passages by BM25, best first; those without a word of the query come last, in their order."""
    import bm25s

    vocabulary: dict[str, int] = {}
    rows = [
        [vocabulary.setdefault(word, len(vocabulary)) for word in tokenize(f"{passage.title} {passage.text}")]
        for passage in passages
    ]
    words = [vocabulary[word] for word in tokenize(query) if word in vocabulary]
    scores = [0.0] * len(passages)
    if words:
        scorer = bm25s.BM25(method="lucene")
        scorer.index((rows, vocabulary), create_empty_token=False, show_progress=False)
        scores = [float(score) for score in scorer.get_scores_from_ids(words)]
    return sorted(zip(passages, scores, strict=True), key=lambda pair: -pair[1])


def _passage(key: str, row: str) -> Passage:
    title, text, sentences = json.loads(row)
    return Passage(id=key, title=title, text=text, sentences=tuple(sentences))


def _path() -> Path:
    return get_settings().home / "given.sqlite"


@contextmanager
def _table() -> Iterator[sqlite3.Connection]:
    try:
        _path().parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(_path(), timeout=30)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS given (id TEXT PRIMARY KEY, passage TEXT NOT NULL)")
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"given passages in {_path()}: {error}", hint="move the file away if it is damaged; a new one is made"
        ) from None
