"""Checkpoint stores (SQLite by default, Postgres by URL), which hold every step of a run, to resume and inspect it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from inference.errors import InputError, StoreError
from inference.locks import lock
from inference.settings import get_settings
from stores.checkpoint_errors import WRITABLE, postgres_error, sqlite_error, with_clear_errors, without_password

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checkpoint_place() -> str:
    """The checkpoint store of `ask`: HOPGRAPH_CHECKPOINTS (a URL may hold a password), or a file in HOPGRAPH_HOME."""
    settings = get_settings()
    return settings.checkpoints or str(settings.home / "checkpoints.sqlite")


def is_postgres(place: str) -> bool:
    """Whether a checkpoint store is a Postgres."""
    return urlsplit(place).scheme in ("postgres", "postgresql")


@asynccontextmanager
async def open_checkpoints(
    place: str | None = None,
    *,
    in_thread: bool = False,
    read_only: bool = False,
    patience: float | None = None,
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open a checkpointer for the duration of the context.

    Checkpoints are untrusted: they are deserialized to plain values only. The checkpointer's asynchronous methods raise
    `StoreError`s.

    Args:
        place: A SQLite file, created if missing, or a postgresql:// URL. Default: `checkpoint_place()`.
        in_thread: Keep file access out of the event loop's thread; slower.
        read_only: Create and write nothing; works in a read-only folder, and a missing file reads as empty.
        patience: Seconds to wait for a Postgres that is away, now and in later calls. Default:
            HOPGRAPH_CHECKPOINTS_PATIENCE.

    Raises:
        StoreError: It can't be opened, or is not a checkpoint store.
        StoreUnavailable: The Postgres is away for longer.
        InputError: The URL's scheme is not supported, or the postgres extra is not installed.
    """
    place = place or checkpoint_place()
    scheme = urlsplit(place).scheme
    if is_postgres(place):
        async with _postgres(place, patience) as saver:
            yield saver
    elif "://" in place:
        raise InputError(
            f"HOPGRAPH_CHECKPOINTS: {scheme}:// is not supported", hint="give a file, or a postgresql:// URL"
        )
    else:
        async with _sqlite(Path(place), in_thread, read_only) as saver:
            yield saver


@asynccontextmanager
async def open_served_checkpoints() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """`open_checkpoints` for LangGraph's local server, which rejects calls that block its event loop."""
    async with open_checkpoints(in_thread=True) as saver:
        yield saver


@asynccontextmanager
async def _sqlite(path: Path, in_thread: bool, read_only: bool) -> AsyncIterator[BaseCheckpointSaver[str]]:
    from stores.saver import LoopSaver, writes_first

    try:
        saver = await LoopSaver.opened(path, in_thread=in_thread, read_only=read_only)
    except OSError as error:
        raise StoreError(f"checkpoints in {path}: {error}", hint=WRITABLE) from None
    except sqlite3.Error as error:
        raise sqlite_error(path, error) from None
    try:
        yield with_clear_errors(writes_first(saver), functools.partial(sqlite_error, path), _absolute(path))
    finally:
        await saver.aclose()


@asynccontextmanager
async def _postgres(url: str, patience: float | None) -> AsyncIterator[BaseCheckpointSaver[str]]:
    try:
        from stores.postgres import open_postgres
    except ImportError:
        raise InputError(
            "HOPGRAPH_CHECKPOINTS: Postgres needs its extra", hint="pip install 'hopgraph[postgres]'"
        ) from None
    from stores.saver import writes_first

    place = without_password(url)
    async with open_postgres(url, get_settings().checkpoints_patience if patience is None else patience) as saver:
        yield with_clear_errors(writes_first(saver), functools.partial(postgres_error, place), place)


@dataclass(frozen=True)
class KeptThread:
    """A thread in a checkpoint store."""

    id: str
    metadata: dict[str, Any]
    """Metadata of its latest checkpoint."""
    checkpoint: str = ""
    """Id of that checkpoint, a UUID of version 6."""

    @property
    def used(self) -> datetime:
        """When it was last used, UTC; 1970 if its checkpoint's id does not tell."""
        try:
            number = uuid.UUID(self.checkpoint)
        except ValueError:
            return _EPOCH
        since_1582 = (number.int >> 80 << 12) | (number.int >> 64 & 0xFFF)  # in steps of 100 ns
        return _EPOCH + timedelta(microseconds=(since_1582 - 0x01B21DD213814000) // 10)


async def kept_threads(saver: BaseCheckpointSaver[str], limit: int) -> tuple[list[KeptThread], int]:
    """The most recently used threads of a store that `open_checkpoints` opened, and the number of all its threads.

    Newest first: checkpoint ids ascend with time, so the latest id of a thread tells when it was last used.

    Raises:
        StoreError: The store can't be read.
    """
    from stores.saver import LoopSaver

    newest = (
        "SELECT thread_id, metadata, checkpoint_id FROM checkpoints "
        "JOIN (SELECT thread_id AS kept, MAX(checkpoint_id) AS latest "
        "FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY latest DESC LIMIT {}) AS newest "
        "ON thread_id = kept AND checkpoint_id = latest WHERE checkpoint_ns = '' ORDER BY latest DESC"
    )
    count = "SELECT COUNT(DISTINCT thread_id) AS threads FROM checkpoints"
    if isinstance(saver, LoopSaver):
        try:
            found = await saver.run_in_thread(lambda: saver.conn.execute(newest.format("?"), (limit,)).fetchall())
            rows = [(str(thread), json.loads(metadata or "{}"), str(latest)) for thread, metadata, latest in found]
            (total,) = await saver.run_in_thread(lambda: saver.conn.execute(count).fetchone())
        except (sqlite3.Error, ValueError) as error:
            raise sqlite_error(Path(getattr(saver, "place", "")), error) from error
    else:
        fetch = cast("Any", saver).fetch
        found = await fetch(newest.format("%s"), (limit,))
        rows = [(str(row["thread_id"]), dict(row["metadata"] or {}), str(row["checkpoint_id"])) for row in found]
        ((total,),) = [row.values() for row in await fetch(count)]
    return [KeptThread(*row) for row in rows], int(total)


def _absolute(path: Path) -> str:
    return str(path.resolve())


@asynccontextmanager
async def only_here(store: BaseCheckpointSaver[str] | str, thread: str) -> AsyncIterator[None]:
    """Lock a thread while it runs: two processes on one thread would make the same model calls twice.

    An operating-system lock, released however the process ends, among the processes of this machine that share
    HOPGRAPH_HOME; without write access to that, nothing is locked.

    Args:
        store: A checkpointer from `open_checkpoints`, or the path or URL of one.
        thread: Thread id.

    Raises:
        StoreError: Another process runs the thread.
    """
    place = await asyncio.to_thread(_name_of, store) if isinstance(store, str) else getattr(store, "place", "")
    if not place:
        yield
        return
    name = hashlib.sha256(f"{place}\0{thread}".encode()).hexdigest()[:32]
    path = get_settings().home / "running" / f"{name}.lock"
    try:
        handle = await asyncio.to_thread(_lock, path)
    except BlockingIOError:
        raise StoreError(
            f"thread {thread} is being run by another process",
            hint="wait until that one has ended",
        ) from None
    except OSError:
        yield
        return
    try:
        yield
    finally:
        await asyncio.to_thread(_unlock, path, handle)


def _name_of(place: str) -> str:
    """Canonical store name for lock files."""
    return without_password(place) if is_postgres(place) else _absolute(Path(place))


def _lock(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = path.open("ab")
        try:
            if not lock(handle):
                raise BlockingIOError
            # The previous owner deletes the file: a lock on a deleted file would exclude nobody.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(handle.fileno())):
                return handle
        except BaseException:
            handle.close()
            raise
        handle.close()


def _unlock(path: Path, handle: IO[bytes]) -> None:
    path.unlink(missing_ok=True)
    handle.close()
