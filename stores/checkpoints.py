"""Checkpoints: SQLite by default, Postgres by URL. Every step of a run is kept, to be resumed and looked at."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from inference.errors import InputError, StoreError
from inference.settings import get_settings

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["KeptThread", "checkpoint_place", "kept_threads", "open_checkpoints", "without_password"]

_POSTGRES = ("postgres", "postgresql")


def checkpoint_place() -> str:
    """Where checkpoints of `ask` go: HOPGRAPH_CHECKPOINTS (which may hold a password), or a file in HOPGRAPH_HOME."""
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
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
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


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool
    except ImportError:
        raise InputError(
            "HOPGRAPH_CHECKPOINTS: Postgres needs its extra", hint="pip install 'hopgraph[postgres]'"
        ) from None
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    malformed = InputError(
        "HOPGRAPH_CHECKPOINTS: malformed postgresql:// URL", hint="percent-encode special characters in the password"
    )
    # What the saver asks of its connections: it commits by itself and reads rows by name.
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url, min_size=1, max_size=8, kwargs=options, open=False, check=AsyncConnectionPool.check_connection
    )
    try:
        try:
            # A pool only says that it could not connect; a connection says why.
            await (await psycopg.AsyncConnection.connect(url, connect_timeout=10)).close()
            await pool.open(wait=True, timeout=10)
            saver = AsyncPostgresSaver(pool, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
            await saver.setup()
        except psycopg.ProgrammingError:
            raise malformed from None  # what it says may hold the password
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise StoreError(
                f"checkpoints in {without_password(url)}: {reason}", hint="is the server running, and the URL right?"
            ) from None
        yield saver
    finally:
        await pool.close()


@dataclass(frozen=True)
class KeptThread:
    """A thread that a store of checkpoints has."""

    id: str
    metadata: dict[str, Any]
    """Of its latest checkpoint."""


async def kept_threads(saver: BaseCheckpointSaver[str], limit: int) -> tuple[list[KeptThread], int]:
    """The latest threads of a store that `open_checkpoints` opened, newest first, and how many there are in all.

    Ids of checkpoints are in the order of time, so that the latest one of a thread says when it was last worked on.
    """
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    newest = (
        "SELECT thread_id, metadata FROM checkpoints JOIN (SELECT thread_id AS kept, MAX(checkpoint_id) AS latest "
        "FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY latest DESC LIMIT {}) AS newest "
        "ON thread_id = kept AND checkpoint_id = latest WHERE checkpoint_ns = '' ORDER BY latest DESC"
    )
    count = "SELECT COUNT(DISTINCT thread_id) AS threads FROM checkpoints"
    if isinstance(saver, AsyncSqliteSaver):
        async with saver.conn.execute(newest.format("?"), (limit,)) as cursor:
            rows = [(str(thread), json.loads(metadata or "{}")) for thread, metadata in await cursor.fetchall()]
        async with saver.conn.execute(count) as cursor:
            (total,) = await cursor.fetchone() or (0,)
    else:
        async with cast("Any", saver)._cursor() as cursor:
            await cursor.execute(newest.format("%s"), (limit,))
            rows = [(str(row["thread_id"]), dict(row["metadata"] or {})) for row in await cursor.fetchall()]
            await cursor.execute(count)
            total = (await cursor.fetchone())["threads"]
    return [KeptThread(thread, metadata) for thread, metadata in rows], int(total)


def without_password(url: str) -> str:
    """A place as it may be shown: a URL without user, password and options; a file as it is."""
    if "@" not in url and "?" not in url:
        return url
    try:
        parts = urlsplit(url)
        place = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return "a malformed URL"
    return parts._replace(netloc=place, query="").geturl()
