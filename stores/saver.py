"""An asyncio checkpointer for SQLite, and the order of a checkpointer's writes."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from inference.errors import InputError
from stores.async_saver import AsyncMethods, called
from stores.serializer import PackingSerializer
from stores.sqlite import is_busy, write_ahead

Found = TypeVar("Found")
Saver = TypeVar("Saver", bound=BaseCheckpointSaver[str])
_WRITES_PER_WAL_CHECKPOINT = 256
"""Writes between two checkpoints of SQLite's write-ahead log: about 4 MB, SQLite's default."""


def writes_first(saver: Saver) -> Saver:
    """Make a saver store a thread's pending writes before the checkpoint that supersedes them; returns the saver.

    LangGraph starts both in this order but runs them concurrently, also with `durability="sync"`. If the process died
    after storing the checkpoint but not the writes, the step and its model calls would run again.
    """
    unfinished: dict[str, set[asyncio.Future[None]]] = {}
    put, put_writes = saver.aput, saver.aput_writes

    async def write(config: RunnableConfig, *args: Any, **options: Any) -> None:
        thread = str(config["configurable"]["thread_id"])
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unfinished.setdefault(thread, set()).add(finished)
        try:
            await put_writes(config, *args, **options)
        finally:
            finished.set_result(None)
            unfinished[thread].discard(finished)
            if not unfinished[thread]:
                del unfinished[thread]

    async def put_after(config: RunnableConfig, *args: Any, **options: Any) -> RunnableConfig:
        if earlier := unfinished.get(str(config["configurable"]["thread_id"])):
            await asyncio.wait(set(earlier))
        return await put(config, *args, **options)

    saver.aput_writes, saver.aput = write, put_after  # type: ignore[method-assign]
    return saver


class LoopSaver(AsyncMethods, SqliteSaver):
    """Checkpoints in a SQLite file, for asyncio. One per file and event loop: `opened`, then `aclose`.

    Reads and writes run in the event loop's thread: they take tenths of a millisecond, less than a thread switch. Calls
    that wait for another process or for the disk run in a worker thread; later calls queue behind them to keep the
    order. The synchronous methods block.
    """

    def __init__(self, connection: sqlite3.Connection, at_once: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        super().__init__(connection, serde=PackingSerializer())
        self._at_once = SqliteSaver(at_once, serde=self.serde)
        self._thread = thread
        self._in_thread = 0
        self._writes = 0

    @classmethod
    async def opened(cls, path: Path, *, in_thread: bool = False, read_only: bool = False) -> LoopSaver:
        """Open a file, or create it.

        Args:
            path: The file.
            in_thread: Run everything in the worker thread.
            read_only: Create and write nothing; works in a read-only folder. A missing file reads as empty.

        Raises:
            OSError, sqlite3.Error: The file can't be opened, or is not a checkpoint database.
        """
        thread = ThreadPoolExecutor(1, "checkpoints")

        def opening() -> LoopSaver:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as unless_opened:

                def connection() -> sqlite3.Connection:
                    made = _reading(path) if read_only else sqlite3.connect(path, timeout=30, check_same_thread=False)
                    unless_opened.callback(made.close)
                    return made

                saver = cls(connection(), connection(), thread)
                saver._in_thread = int(in_thread)
                for own in (saver, saver._at_once):
                    if not read_only:
                        write_ahead(own.conn)
                    own.setup()
                saver._at_once.conn.execute("PRAGMA busy_timeout=0")
                saver._at_once.conn.execute("PRAGMA wal_autocheckpoint=0")
                unless_opened.pop_all()
            return saver

        try:
            return await asyncio.get_running_loop().run_in_executor(thread, opening)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def aclose(self) -> None:
        """Finish what is queued, and close the file."""
        self._at_once.conn.close()  # used in this thread only
        try:
            await self.run_in_thread(self.conn.close)
        finally:
            self._thread.shutdown(wait=False)

    async def run_in_thread(self, call: Callable[..., Found], *args: Any, **options: Any) -> Found:
        """Call a function in the worker thread; it is completed even if the caller is cancelled."""
        self._in_thread += 1
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._thread, functools.partial(call, *args, **options))
        doing.add_done_callback(self._left)
        return await asyncio.shield(doing)

    def _left(self, _: asyncio.Future[Any]) -> None:
        self._in_thread -= 1

    async def _soon(self, call: Callable[..., Found], *args: Any) -> Found:
        """Call a method of SqliteSaver, in this thread unless it has to wait."""
        if not self._in_thread:
            try:
                return call(self._at_once, *args)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                self._at_once.conn.rollback()
        return await self.run_in_thread(call, self, *args)

    async def _write(self, call: Callable[..., Found], *args: Any) -> Found:
        """Call a method that writes; every `_WRITES_PER_WAL_CHECKPOINT` calls, checkpoint the log."""
        self._writes += 1
        if self._writes % _WRITES_PER_WAL_CHECKPOINT:
            return await self._soon(call, *args)
        return await self.run_in_thread(self._moved, call, *args)

    def _moved(self, call: Callable[..., Found], *args: Any) -> Found:
        """Checkpoint the log first: the next write restarts it, which waits for the disk."""
        with self.lock, suppress(sqlite3.Error):  # on a full disk, the log may still have room
            self.conn.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return call(self, *args)

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if name == "get_tuple":
            return await self._soon(SqliteSaver.get_tuple, *args)
        if name in ("put", "put_writes"):
            return await self._write(getattr(SqliteSaver, name), *args)
        return await self.run_in_thread(called, self, name, *args, **options)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `BaseCheckpointSaver`."""
        await self.run_in_thread(self._execute, _DELETE_RUN, [{"run": str(run)} for run in run_ids])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `BaseCheckpointSaver`."""
        threads = {"source": str(source_thread_id), "target": str(target_thread_id)}
        await self.run_in_thread(self._execute, _COPY_THREAD, [threads])

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `BaseCheckpointSaver`. A pruned run can still be resumed; its earlier steps are gone.

        Raises:
            InputError: The strategy is unknown, or a thread has delta channels, which need the earlier checkpoints.
        """
        if strategy not in _PRUNE:
            raise InputError(f"prune: unknown strategy {strategy!r}", hint=f"one of {', '.join(_PRUNE)}")
        threads = [{"thread": str(thread)} for thread in thread_ids]
        await self.run_in_thread(self._prune, threads, strategy)

    def _prune(self, threads: list[dict[str, str]], strategy: str) -> None:
        with self.cursor(transaction=False) as cursor:
            delta = [row["thread"] for row in threads if cursor.execute(_HAS_DELTAS, row).fetchone()]
        if delta and strategy != "delete":
            raise InputError(f"prune: {strategy} can't be used on delta channels (thread {delta[0]})")
        self._execute(_PRUNE[strategy], threads)

    def _execute(self, statements: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
        """Run statements for each row of parameters, all of them or none."""
        with self.cursor(transaction=False) as cursor, self.conn:
            for row in rows:
                for statement in statements:
                    cursor.execute(statement, row)


def _reading(path: Path) -> sqlite3.Connection:
    """A read-only connection; a missing file reads as empty.

    For a database with a write-ahead log, SQLite creates a shared-memory file. If it can't, the file is opened as
    immutable, provided that the log is empty: then no process can be writing.
    """
    if not path.exists():
        return sqlite3.connect(":memory:", check_same_thread=False)
    address = f"{path.absolute().as_uri()}?mode=ro"
    log = path.with_name(f"{path.name}-wal")
    for immutable in ("", "&immutable=1"):
        made = sqlite3.connect(address + immutable, uri=True, timeout=30, check_same_thread=False)
        try:
            made.execute("SELECT 1 FROM sqlite_master").fetchall()
        except sqlite3.OperationalError:
            made.close()
            if immutable or (log.exists() and log.stat().st_size):
                raise
        else:
            break
    return made


# Metadata are JSON in a BLOB.
_DELETE_RUN = (
    "DELETE FROM writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN (SELECT thread_id, checkpoint_ns, "
    "checkpoint_id FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = :run)",
    "DELETE FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = :run",
)
_COPY_THREAD = (
    "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, "
    "checkpoint, metadata) SELECT :target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, "
    "metadata FROM checkpoints WHERE thread_id = :source",
    "INSERT OR REPLACE INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, "
    "value) SELECT :target, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value "
    "FROM writes WHERE thread_id = :source",
)
_HAS_DELTAS = (
    "SELECT 1 FROM checkpoints WHERE thread_id = :thread "
    "AND json_extract(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot') IS NOT NULL LIMIT 1"
)
_PRUNE = {
    # Checkpoint ids ascend with time. Writes of a checkpoint that is not stored yet are kept.
    "keep_latest": (
        "DELETE FROM writes WHERE thread_id = :thread AND checkpoint_id < (SELECT MAX(checkpoint_id) FROM checkpoints "
        "AS c WHERE c.thread_id = :thread AND c.checkpoint_ns = writes.checkpoint_ns)",
        "DELETE FROM checkpoints WHERE thread_id = :thread AND checkpoint_id < (SELECT MAX(checkpoint_id) FROM "
        "checkpoints AS c WHERE c.thread_id = :thread AND c.checkpoint_ns = checkpoints.checkpoint_ns)",
        "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = :thread",
    ),
    "delete": ("DELETE FROM writes WHERE thread_id = :thread", "DELETE FROM checkpoints WHERE thread_id = :thread"),
}
