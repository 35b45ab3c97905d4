"""Checkpoints: SQLite by default, Postgres by URL. Every step of a run is kept, to be resumed and looked at."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from inference.errors import InputError, StoreError
from inference.settings import get_settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

__all__ = [
    "KeptThread",
    "checkpoint_place",
    "kept_threads",
    "only_here",
    "open_checkpoints",
    "open_served_checkpoints",
    "without_password",
]

Saver = TypeVar("Saver", bound="BaseCheckpointSaver[str]")
_POSTGRES = ("postgres", "postgresql")


def checkpoint_place() -> str:
    """Where checkpoints of `ask` go: HOPGRAPH_CHECKPOINTS (which may hold a password), or a file in HOPGRAPH_HOME."""
    settings = get_settings()
    return settings.checkpoints or str(settings.home / "checkpoints.sqlite")


@asynccontextmanager
async def open_checkpoints(
    place: str | None = None, *, in_thread: bool = False
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """A checkpointer, open as long as the context lasts.

    Types are not trusted when reading: a checkpoint can hold plain values and nothing else, whatever its bytes say.

    Args:
        place: A SQLite file, made if it is missing, or a postgresql:// URL. Default: `checkpoint_place()`.
        in_thread: Never touch a file in the event loop's thread, though that costs more.

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
        async with _sqlite(Path(place), in_thread) as saver:
            yield saver


@asynccontextmanager
async def open_served_checkpoints() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """The same for LangGraph's local server, which refuses what may block its event loop."""
    async with open_checkpoints(in_thread=True) as saver:
        yield saver


@asynccontextmanager
async def _sqlite(path: Path, in_thread: bool) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from stores.saver import LoopSaver, writes_first

    try:
        saver = await LoopSaver.opened(path, in_thread=in_thread)
    except OSError as error:
        raise StoreError(f"checkpoints in {path}: {error}", hint="is the folder writable?") from None
    except sqlite3.Error as error:
        raise _sqlite_error(path, error) from None
    try:
        yield _speaking(writes_first(saver), functools.partial(_sqlite_error, path), _absolute(path))
    finally:
        await saver.aclose()


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

    from stores.saver import PackingSerializer, writes_first

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
            saver = AsyncPostgresSaver(pool, serde=PackingSerializer())
            await saver.setup()
        except psycopg.ProgrammingError:
            raise malformed from None  # what it says may hold the password
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise StoreError(
                f"checkpoints in {without_password(url)}: {reason}", hint="is the server running, and the URL right?"
            ) from None
        yield _speaking(writes_first(saver), functools.partial(_postgres_error, url), without_password(url))
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
    from stores.saver import LoopSaver

    newest = (
        "SELECT thread_id, metadata FROM checkpoints JOIN (SELECT thread_id AS kept, MAX(checkpoint_id) AS latest "
        "FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY latest DESC LIMIT {}) AS newest "
        "ON thread_id = kept AND checkpoint_id = latest WHERE checkpoint_ns = '' ORDER BY latest DESC"
    )
    count = "SELECT COUNT(DISTINCT thread_id) AS threads FROM checkpoints"
    if isinstance(saver, LoopSaver):
        try:
            found = await saver.run_in_thread(lambda: saver.conn.execute(newest.format("?"), (limit,)).fetchall())
            rows = [(str(thread), json.loads(metadata or "{}")) for thread, metadata in found]
            (total,) = await saver.run_in_thread(lambda: saver.conn.execute(count).fetchone())
        except (sqlite3.Error, ValueError) as error:
            raise _sqlite_error(Path(getattr(saver, "place", "")), error) from error
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


def _absolute(path: Path) -> str:
    return str(path.resolve())


def _sqlite_error(path: Path, error: Exception) -> StoreError:
    hints = {
        "full": "make room on the disk; what was finished is kept, and the same command goes on from there",
        "disk I/O": "is the disk full or failing? What was finished is kept, and the same command goes on from there",
        "readonly": "is the file, and the folder it is in, writable?",
        "locked": "another process keeps it busy; the same command goes on when that one has ended",
    }
    damaged = "move the file away if it is damaged; a new one is made"
    hint = next((hint for sign, hint in hints.items() if sign in str(error)), damaged)
    return StoreError(f"checkpoints in {path}: {_one_line(error)}", hint=hint)


def _postgres_error(url: str, error: Exception) -> StoreError:
    return StoreError(
        f"checkpoints in {without_password(url)}: {_one_line(error)}",
        hint="what was finished is kept: the same command goes on when the server is back",
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _speaking(saver: Saver, explain: Callable[[Exception], StoreError], place: str) -> Saver:
    """Have a checkpointer's own errors, and those of reading what it holds, raised as errors a person can act on."""
    from langgraph.checkpoint.serde.types import ERROR, RESUME

    # Damaged bytes are a ValueError to each of msgpack, JSON, UTF-8 and zlib.
    known: tuple[type[Exception], ...] = (sqlite3.Error, OSError, ValueError, NotImplementedError)
    if place.partition("://")[0] in _POSTGRES:
        import psycopg
        from psycopg_pool import PoolTimeout

        known += (psycopg.Error, PoolTimeout)

    def awaited(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        async def speaking(*args: Any, **options: Any) -> Any:
            try:
                return await call(*args, **options)
            except known as error:
                raise explain(error) from error

        return speaking

    def listed(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        async def speaking(*args: Any, **options: Any) -> AsyncIterator[Any]:
            try:
                async for found in call(*args, **options):
                    yield found
            except known as error:
                raise explain(error) from error

        return speaking

    async def checked(config: RunnableConfig) -> CheckpointTuple | None:
        found = await read(config)
        if found is not None and not (isinstance(found.checkpoint, dict) and isinstance(found.metadata, dict)):
            raise explain(ValueError("what it holds is no checkpoint"))
        return found

    async def written(config: RunnableConfig, writes: Sequence[tuple[str, Any]], *place: Any, **named: Any) -> None:
        # A task that is stopped between its writes and the choice of what follows it is kept by LangGraph with the
        # former alone. Going on, it would take that for a task which ended and led nowhere: the run would be over.
        if any(channel == ERROR for channel, _ in writes):
            writes = [row for row in writes if row[0] in (ERROR, RESUME)]  # what a person decided was decided
        await write(config, writes, *place, **named)

    read, write = saver.aget_tuple, saver.aput_writes
    saver.aget_tuple = checked  # type: ignore[method-assign]
    saver.aput_writes = written  # type: ignore[method-assign]
    for name in ("aget_tuple", "aput", "aput_writes", "adelete_thread"):
        setattr(saver, name, awaited(getattr(saver, name)))
    saver.alist = listed(saver.alist)  # type: ignore[method-assign]
    saver.place = place  # type: ignore[attr-defined]
    return saver


@asynccontextmanager
async def only_here(store: BaseCheckpointSaver[str] | str, thread: str) -> AsyncIterator[None]:
    """Hold a thread for as long as it is run: two that ran it at the same time would make the same calls twice.

    The lock is the operating system's: it ends with the process, however that ends. It reaches all processes of this
    machine with the same HOPGRAPH_HOME; where that can't be written, there is none.

    Args:
        store: What `open_checkpoints` gave, or the place that it was given.
        thread: The thread's id.

    Raises:
        StoreError: Somebody else is running it.
    """
    place = await asyncio.to_thread(_name_of, store) if isinstance(store, str) else getattr(store, "place", "")
    if not place:
        yield
        return
    name = hashlib.sha256(f"{place}\0{thread}".encode()).hexdigest()[:32]
    path = get_settings().home / "running" / f"{name}.lock"
    try:
        handle = await asyncio.to_thread(_take, path)
    except BlockingIOError:
        raise StoreError(
            f"thread {thread} is being run by another process",
            hint="wait until that one has ended: nothing is gained by running a thread twice",
        ) from None
    except OSError:
        yield
        return
    try:
        yield
    finally:
        await asyncio.to_thread(_give, path, handle)


def _name_of(place: str) -> str:
    """The name by which locks know a place."""
    return without_password(place) if urlsplit(place).scheme in _POSTGRES else _absolute(Path(place))


def _take(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = path.open("ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before has deleted the file: a lock on that one would keep nobody out.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(handle.fileno())):
                return handle
        except BaseException:
            handle.close()
            raise
        handle.close()


def _give(path: Path, handle: IO[bytes]) -> None:
    path.unlink(missing_ok=True)
    handle.close()
