"""SQLite queries by many keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_KEYS = 500
"""Keys per statement; SQLite's limit was 999 before version 3.32."""


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
