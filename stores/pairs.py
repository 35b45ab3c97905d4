"""The knowledge base of question-answer pairs that a reader extracts from an index (CompactRAG, Sec. 3.1).

One SQLite file beside the index, `HOME/indexes/<name>/pairs.sqlite`. A passage's pairs, their vectors and its reading
are written in one transaction, so that a kill never leaves it half read. Searches see committed data, also during a
reading. Search is exact (brute force), so that results do not depend on the order of reading.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Encoder
from inference.errors import StoreError
from stores.passages import content_id
from stores.ranking import best
from stores.readings import Pair, Reading, pair_text
from stores.sqlite import write_ahead

if TYPE_CHECKING:
    from stores.index import Index

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS readings (
    passage TEXT PRIMARY KEY, content TEXT NOT NULL, cause TEXT NOT NULL, reading TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pairs (
    passage TEXT NOT NULL, number INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
    verbatim INTEGER NOT NULL, coverage INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (passage, number)
) WITHOUT ROWID;
"""
_COLUMNS = "passage, number, question, answer, verbatim, coverage"


class Pairs:
    """An open knowledge base. Thread-safe; any number of processes may read while one writes.

    Raises:
        StoreError: The file is not such a database, or is damaged; any method may raise it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._loaded: tuple[str, list[str], list[str], NDArray[np.float32]] | None = None
        self._counted: tuple[str, int, int] | None = None
        with self._failures():
            self._db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            write_ahead(self._db)
            self._db.executescript(_SCHEMA)
        found = self._about("format", str(FORMAT))
        if found != str(FORMAT):
            raise StoreError(
                f"{path} has format {found}, this version of Hopgraph reads {FORMAT}",
                hint="move the file away and run `hopgraph read` again",
            )

    @property
    def id(self) -> str:
        """Identity of the base; changes when it is cleared."""
        return self._about("id")

    @property
    def index_hash(self) -> str:
        """Hash of the index it was read from; "" before the first reading."""
        return self._about("index")

    @property
    def read(self) -> int:
        """Number of passages read."""
        return self._counts()[0]

    def __len__(self) -> int:
        """Number of pairs."""
        return self._counts()[1]

    def _counts(self) -> tuple[int, int]:
        """Numbers of passages read and of pairs, cached until the next write, because counting scans all rows."""
        change, counted = self._about("change", "0"), self._counted
        if counted is None or counted[0] != change:
            read = self._all("SELECT count(*) FROM readings WHERE cause = ''")[0][0]
            counted = self._counted = (change, int(read), int(self._all("SELECT count(*) FROM pairs")[0][0]))
        return counted[1], counted[2]

    def done(self) -> set[str]:
        """Ids of all passages with a reading, failed or not."""
        return {str(key) for (key,) in self._all("SELECT passage FROM readings")}

    def failed(self) -> set[str]:
        """Ids of passages whose reading failed."""
        return {str(key) for (key,) in self._all("SELECT passage FROM readings WHERE cause != ''")}

    def readings(self) -> list[Reading]:
        """All readings, by passage id."""
        return [Reading(**json.loads(row)) for (row,) in self._all("SELECT reading FROM readings ORDER BY passage")]

    def all_pairs(self) -> Iterator[Pair]:
        """All pairs, by passage id and number."""
        return (_pair(row) for row in self._all(f"SELECT {_COLUMNS} FROM pairs ORDER BY passage, number"))  # noqa: S608

    def digest(self) -> str:
        """SHA-256 of all pairs, independent of the order of reading."""
        digest = hashlib.sha256()
        for pair in self.all_pairs():
            digest.update(json.dumps(astuple(pair), ensure_ascii=False).encode())
        return digest.hexdigest()

    def get(self, ids: Sequence[str]) -> list[Pair]:
        """Pairs by id, in the order of `ids`.

        Raises:
            StoreError: An id is not in the base.
        """
        found: dict[str, Pair] = {}
        for key in dict.fromkeys(ids):
            passage, _, number = key.rpartition("#")
            rows = self._all(
                f"SELECT {_COLUMNS} FROM pairs WHERE passage = ? AND number = ?",  # noqa: S608
                (passage, int(number) if number.isdecimal() else -1),
            )
            if not rows:
                raise StoreError(
                    f"{self._path} has no pair {key!r}", hint="was the base read again? Ask the question again"
                )
            found[key] = _pair(rows[0])
        return [found[key] for key in ids]

    def search_many(
        self, queries: Sequence[str], k: int = 5, within: Collection[str] | None = None
    ) -> list[list[tuple[Pair, float]]]:
        """The top k pairs of each query with their inner products, best first; none for a blank query.

        Args:
            queries: Queries, encoded in one batch.
            k: Number of pairs.
            within: Restricts the search to pairs of these passages, by id.

        Raises:
            EndpointError: The embeddings server fails.
        """
        ids, passages, matrix = self._vectors()
        if within is not None:
            kept = [row for row, passage in enumerate(passages) if passage in within]
            ids, matrix = [ids[row] for row in kept], matrix[kept]
        asked = [i for i, query in enumerate(queries) if query.strip()]
        found: list[list[tuple[Pair, float]]] = [[] for _ in queries]
        if not asked or not ids:
            return found
        vectors = get_encoder().encode_queries([queries[i] for i in asked])
        for i, vector in zip(asked, vectors, strict=True):
            row = matrix @ vector  # faster than a product with two or three queries
            nearest, scores = best(row, k)
            found[i] = list(zip(self.get([ids[j] for j in nearest]), scores.tolist(), strict=True))
        return found

    def _vectors(self) -> tuple[list[str], list[str], NDArray[np.float32]]:
        """Ids, passage ids and vectors of all pairs, cached until the next write."""
        change = self._about("change", "0")
        loaded = self._loaded
        if loaded is None or loaded[0] != change:
            rows = self._all("SELECT passage, number, vector FROM pairs ORDER BY passage, number")
            matrix = np.frombuffer(b"".join(row[2] for row in rows), "<f4").reshape(len(rows), -1 if rows else 0)
            loaded = self._loaded = (change, [f"{row[0]}#{row[1]}" for row in rows], [row[0] for row in rows], matrix)
        return loaded[1], loaded[2], loaded[3]

    def add(self, reading: Reading, pairs: Sequence[Pair], vectors: NDArray[np.float32]) -> None:
        """Store a reading with its pairs, replacing an earlier one; durable against a kill when it returns.

        Args:
            reading: The reading.
            pairs: Its pairs.
            vectors: Their vectors, shape (pairs, dimension).
        """
        rows = [
            (p.passage, p.number, p.question, p.answer, int(p.verbatim), int(p.coverage), vector.tobytes())
            for p, vector in zip(pairs, vectors.astype("<f4"), strict=True)
        ]
        with self._transaction() as db:
            db.execute("DELETE FROM pairs WHERE passage = ?", (reading.passage,))
            db.execute(
                "INSERT OR REPLACE INTO readings VALUES (?, ?, ?, ?)",
                (reading.passage, reading.content, reading.cause, json.dumps(asdict(reading), ensure_ascii=False)),
            )
            db.executemany("INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, passages: Iterable[str]) -> None:
        """Delete the readings and the pairs of passages."""
        keys = [(key,) for key in passages]
        with self._transaction() as db:
            db.executemany("DELETE FROM readings WHERE passage = ?", keys)
            db.executemany("DELETE FROM pairs WHERE passage = ?", keys)

    def clear(self) -> None:
        """Delete everything; the base gets a new id."""
        with self._transaction() as db:
            for table in ("readings", "pairs"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608
            db.execute("DELETE FROM about WHERE key != 'change'")
            db.execute("INSERT INTO about VALUES ('format', ?)", (str(FORMAT),))

    def rebase(self, index: Index, encoder: Encoder) -> None:
        """Update the base to the current state of an index; readings of unchanged passages are kept.

        Pairs are re-encoded if the encoder has changed.
        """
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (str(FORMAT),))
            db.execute("INSERT OR IGNORE INTO about VALUES ('id', ?)", (secrets.token_hex(8),))
        if self.index_hash == index.hash:
            return
        contents = dict(self._all("SELECT passage, content FROM readings"))
        same = {p.id for chunk in index.passages() for p in chunk if contents.get(p.id) == content_id(p.title, p.text)}
        self.forget(set(contents) - same)
        if self._about("encoder") != encoder.id:
            self._encode_again(encoder)
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO about VALUES ('encoder', ?)", (encoder.id,))
            db.execute("INSERT OR REPLACE INTO about VALUES ('index', ?)", (index.hash,))

    def _encode_again(self, encoder: Encoder) -> None:
        pairs = list(self.all_pairs())
        if not pairs:
            return
        vectors = encoder.encode_passages([pair_text(pair) for pair in pairs]).astype("<f4")
        rows = [(vector.tobytes(), pair.passage, pair.number) for pair, vector in zip(pairs, vectors, strict=True)]
        with self._transaction() as db:
            db.executemany("UPDATE pairs SET vector = ? WHERE passage = ? AND number = ?", rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _about(self, key: str, default: str = "") -> str:
        rows = self._all("SELECT value FROM about WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else default

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._failures(), self._lock:
            return self._db.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """An atomic write, which invalidates the caches of all processes."""
        with self._failures(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute(
                    "INSERT INTO about VALUES ('change', '1') "
                    "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"the knowledge base {self._path}: {error}",
                hint="is the disk full? If the file is damaged, move it away and run `hopgraph read` again",
            ) from error


def _pair(row: Sequence[Any]) -> Pair:
    passage, number, question, answer, verbatim, coverage = row
    return Pair(str(passage), int(number), str(question), str(answer), bool(verbatim), bool(coverage))
