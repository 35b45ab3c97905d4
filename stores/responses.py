"""Response cache in SQLite. For reuse only: resuming a run does not depend on it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import lru_cache
from pathlib import Path

from inference.errors import StoreError
from stores.sqlite import write_ahead


class Responses:
    """A key-value table in one SQLite file, shared by threads and processes.

    Args:
        path: The file; created with its folder if missing.

    Raises:
        StoreError: The file can't be opened or is not such a table.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
            write_ahead(self._connection)
            self._connection.execute("CREATE TABLE IF NOT EXISTS responses (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(f"response cache {self._path}: {error}", hint="delete the file, or run without --cache")

    def _execute(self, sql: str, values: tuple[str, ...]) -> list[tuple[str]]:
        try:
            with self._lock:
                return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    async def get(self, key: str) -> str | None:
        """The reply stored under `key`, or None."""
        rows = await asyncio.to_thread(self._execute, "SELECT value FROM responses WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    async def put(self, key: str, value: str) -> None:
        """Store a reply, overwriting an earlier one."""
        await asyncio.to_thread(self._execute, "INSERT OR REPLACE INTO responses VALUES (?, ?)", (key, value))


@lru_cache(maxsize=8)
def open_responses(path: Path) -> Responses:
    """The cache in `path`, one instance per process."""
    return Responses(path)
