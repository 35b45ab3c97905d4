"""Checkpoints: SQLite by default, Postgres by URL. Every step of a run is kept, to be resumed and looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from inference.errors import InputError, StoreError
from inference.settings import get_settings

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["checkpoint_place", "open_checkpoints"]

_POSTGRES = ("postgres", "postgresql")


def checkpoint_place() -> str:
    """Where checkpoints of `ask` go: HOPGRAPH_CHECKPOINTS, or a file in HOPGRAPH_HOME."""
    settings = get_settings()
    return settings.checkpoints or str(settings.home / "checkpoints.sqlite")


@asynccontextmanager
async def open_checkpoints(place: str | None = None) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """A checkpointer, open as long as the context lasts.

    Types are not trusted when reading: a checkpoint can hold plain values and nothing else, whatever its bytes say.

    Args:
        place: A SQLite file, made if it is missing, or a postgresql:// URL. Default: `checkpoint_place()`.

    Raises:
        StoreError: It can't be opened, or is not a checkpoint store.
        InputError: A URL of another kind, or Postgres without its extra.
    """
    place = place or checkpoint_place()
    scheme = urlsplit(place).scheme
    if scheme in _POSTGRES:
        async with _postgres(place) as saver:
            yield saver
    elif "://" in place:
        raise InputError(
            f"HOPGRAPH_CHECKPOINTS: {scheme}:// is not supported", hint="give a file, or a postgresql:// URL"
        )
    else:
        async with _sqlite(Path(place)) as saver:
            yield saver


@asynccontextmanager
async def _sqlite(path: Path) -> AsyncIterator[BaseCheckpointSaver[str]]:
    import aiosqlite
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = await aiosqlite.connect(path, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"checkpoints in {path}: {error}", hint="is the folder writable?") from None
    try:
        saver = AsyncSqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        try:
            await saver.setup()
            # WAL with NORMAL survives a killed process; only a power cut can lose the last commits.
            await connection.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error as error:
            raise StoreError(
                f"checkpoints in {path}: {error}", hint="move the file away if it is damaged; a new one is made"
            ) from None
        yield saver
    finally:
        await connection.close()
