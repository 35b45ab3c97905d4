"""SQLite beyond one statement: queries by many keys, files that several processes open."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any

_KEYS = 500
"""Keys per statement; SQLite's limit was 999 before version 3.32."""
_WAIT = 30.0
"""Seconds to wait for other processes that open the same new file."""


def select_in(
    run: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], what: str, key: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Rows whose key is in `values`.

    Args:
        run: Runs a statement with its values and returns all rows.
        what: Columns and table: `id, title FROM passages`.
        key: Column to compare.
        values: Any number of them.
    """
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(values), _KEYS):
        part = list(values[start : start + _KEYS])
        rows += run(f"SELECT {what} WHERE {key} IN ({','.join('?' * len(part))})", part)
    return rows


def write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to write-ahead logging, without waiting for the disk at each commit.

    Survives a killed process; only a power cut can lose the last commits. While another process switches the same file,
    SQLite fails at once, whatever its timeout: this tries again.

    Raises:
        sqlite3.Error: The file can't be written, is no database, or stays locked.
    """
    until = time.monotonic() + _WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous=NORMAL")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection has locked the file."""
    # Errors raised by Python itself have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
