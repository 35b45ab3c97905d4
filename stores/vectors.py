"""Vector cache by content: interrupted builds resume, and later ones encode only new texts."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inference.encoders.vectors import Vectors
from stores.sqlite import select_in


def vector_key(encoder: str, text: str) -> bytes:
    """Cache key of a text's vector under an encoder, 16 bytes."""
    return hashlib.blake2b(f"{encoder}\x00{text}".encode(), digest_size=16).digest()


class KeptVectors:
    """A SQLite file of vectors, written only by the process that holds the index's lock.

    Args:
        path: The file.
        writable: False: it has all vectors that are needed, and nobody writes meanwhile.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self._path = path
        if not writable:
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            return
        try:
            self._connect()
        except sqlite3.DatabaseError:
            # Only a cache: unreadable vectors are computed again.
            path.unlink()
            self._connect()

    def _connect(self) -> None:
        self._db = sqlite3.connect(self._path)
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
        )
        self._db.commit()

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Positions of the keys without a vector, only the first of duplicate keys."""
        known = {key for (key,) in self._select("key", keys)}
        positions: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            if key not in known:
                positions.setdefault(key, position)
        return list(positions.values())

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store vectors; durable against a kill when it returns."""
        rows = [(key, vector.tobytes()) for key, vector in zip(keys, vectors.astype("<f4"), strict=True)]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def get(self, keys: Sequence[bytes]) -> Vectors:
        """Vectors of the keys, all of which must exist; shape (keys, dimension)."""
        found = dict(self._select("key, vector", keys))
        return np.stack([np.frombuffer(found[key], "<f4") for key in keys])

    def keep_only(self, keys: Iterable[bytes]) -> None:
        """Delete all vectors except those of the keys."""
        with self._db:
            self._db.execute("CREATE TEMP TABLE wanted (key BLOB PRIMARY KEY) WITHOUT ROWID")
            self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((key,) for key in keys))
            self._db.execute("DELETE FROM vectors WHERE key NOT IN (SELECT key FROM wanted)")
            self._db.execute("DROP TABLE wanted")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _select(self, columns: str, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        def run(statement: str, values: Sequence[bytes]) -> list[tuple[Any, ...]]:
            return self._db.execute(statement, values).fetchall()

        return select_in(run, f"{columns} FROM vectors", "key", keys)
