"""What checkpoints are kept by: a serializer that packs them, and a SQLite saver for asynchronous graphs."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

__all__ = ["LoopSaver", "PackingSerializer"]

Found = TypeVar("Found")
_PACKED = "+zlib"
_WORTH_PACKING = 512
"""Bytes."""
_LONGEST = 1_000_000_000
"""Bytes that something packed may unpack to."""
_WRITES_A_MOVE = 256
"""Writes after which they are moved from SQLite's log to the file: about every 4 MB, as SQLite itself does."""


class PackingSerializer(JsonPlusSerializer):
    """Plain values and nothing else, whatever the bytes say; large ones packed, to about a fifth.

    A checkpoint is the whole of a run's state, at each step anew, and says most things many times.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> PackingSerializer:
        """Itself: no type is added to those that are read.

        Under LANGGRAPH_STRICT_MSGPACK, LangGraph asks for each graph's own types, and copies the checkpointer when it
        gets another serializer. The state has plain values only, and the local server's checkpointer can't be copied:
        its `__getattr__` never ends without an `__init__`.
        """
        return self

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See `SerializerProtocol`."""
        kind, plain = super().dumps_typed(obj)
        if len(plain) < _WORTH_PACKING:
            return kind, plain
        return kind + _PACKED, zlib.compress(plain, 1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See `SerializerProtocol`.

        Raises:
            ValueError: It is damaged, or unpacks to something absurdly long.
        """
        kind, value = data
        if kind.endswith(_PACKED):
            unpacking = zlib.decompressobj()
            try:
                value = unpacking.decompress(value, _LONGEST)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            if not unpacking.eof:
                raise ValueError("what was packed is cut off, or too long")
            kind = kind.removesuffix(_PACKED)
        return super().loads_typed((kind, value))


class LoopSaver(SqliteSaver):
    """Checkpoints in a SQLite file. Open one a file and event loop, by `opened`; close it with `aclose`.

    Reading and writing are done at once, in the event loop's thread: they take tenths of a millisecond, and changing
    threads costs more than that. What has to wait goes to a thread: for another process that is writing, and for the
    disk, when what was written is moved from SQLite's log to the file. What comes meanwhile follows it there, so that
    all is done in order. The methods that are not asynchronous wait.
    """

    def __init__(self, connection: sqlite3.Connection, at_once: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        super().__init__(connection, serde=PackingSerializer())
        self._at_once = SqliteSaver(at_once, serde=self.serde)
        self._thread = thread
        self._in_thread = 0
        self._writes = 0

    @classmethod
    async def opened(cls, path: Path, *, in_thread: bool = False) -> LoopSaver:
        """A saver on a file, which is made if it is missing.

        Args:
            path: The file.
            in_thread: Do everything in the thread.

        Raises:
            OSError, sqlite3.Error: It can't be opened, or is no database of checkpoints.
        """
        thread = ThreadPoolExecutor(1, "checkpoints")

        def opening() -> LoopSaver:
            path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as unless_opened:

                def connection() -> sqlite3.Connection:
                    made = sqlite3.connect(path, timeout=30, check_same_thread=False)
                    unless_opened.callback(made.close)
                    return made

                saver = cls(connection(), connection(), thread)
                saver._in_thread = int(in_thread)
                for own in (saver, saver._at_once):
                    own.setup()
                    # WAL with NORMAL survives a killed process; only a power cut can lose the last commits.
                    own.conn.execute("PRAGMA synchronous=NORMAL")
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
        """Finish what is under way, and close the file."""
        self._at_once.conn.close()  # here: nobody may be using it
        try:
            await self.hop(self.conn.close)
        finally:
            self._thread.shutdown(wait=False)

    async def hop(self, call: Callable[..., Found], *args: Any, **options: Any) -> Found:
        """Do something in the thread; it is done even if nobody waits for it any more."""
        self._in_thread += 1
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._thread, functools.partial(call, *args, **options))
        doing.add_done_callback(self._left)
        return await asyncio.shield(doing)

    def _left(self, _: asyncio.Future[Any]) -> None:
        self._in_thread -= 1

    async def _soon(self, call: Callable[..., Found], *args: Any) -> Found:
        """Call a method of SqliteSaver, here if it need not wait."""
        if not self._in_thread:
            try:
                return call(self._at_once, *args)
            except sqlite3.OperationalError as error:
                # Errors that are Python's own have no code.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                self._at_once.conn.rollback()
        return await self.hop(call, self, *args)

    async def _write(self, call: Callable[..., Found], *args: Any) -> Found:
        """The same for one that writes: now and then it has the log moved."""
        self._writes += 1
        if self._writes % _WRITES_A_MOVE:
            return await self._soon(call, *args)
        return await self.hop(self._moved, call, *args)

    def _moved(self, call: Callable[..., Found], *args: Any) -> Found:
        """Move the log to the file before writing: who writes next begins the log anew, and waits for the disk."""
        with self.lock, suppress(sqlite3.Error):  # the log may have room where the file has none
            self.conn.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return call(self, *args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver`."""
        return await self._soon(SqliteSaver.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `BaseCheckpointSaver`."""
        for found in await self.hop(lambda: list(self.list(config, filter=filter, before=before, limit=limit))):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `BaseCheckpointSaver`."""
        return await self._write(SqliteSaver.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `BaseCheckpointSaver`."""
        await self._write(SqliteSaver.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `BaseCheckpointSaver`."""
        await self.hop(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `BaseCheckpointSaver`."""
        return await self.hop(self.get_delta_channel_history, config=config, channels=channels)
