"""Counts how often each key occurs, of any number of keys."""

from __future__ import annotations

import sqlite3

_IN_MEMORY = 100_000
"""Distinct keys; with more, all are in a temporary file of SQLite."""


class Seen:
    """How often keys were seen."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._db: sqlite3.Connection | None = None

    def add(self, key: bytes) -> int:
        """See a key; returns how often it was seen, from 1."""
        if self._db is not None:
            statement = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"
            [(times,)] = self._db.execute(statement, [key])
            return int(times)
        self._counts[key] = times = self._counts.get(key, 0) + 1
        if len(self._counts) > _IN_MEMORY:
            # A database without a name is a file that SQLite deletes when it is closed.
            self._db = sqlite3.connect("", check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
            self._db.executemany("INSERT INTO seen VALUES (?, ?)", self._counts.items())
            self._counts.clear()
        return times
