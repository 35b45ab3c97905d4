"""What checkpoints are kept by: a serializer that packs them, and a SQLite saver for asynchronous graphs."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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

__all__ = ["OneThreadSaver", "PackingSerializer"]

Found = TypeVar("Found")
_PACKED = "+zlib"
_WORTH_PACKING = 512
"""Bytes."""
_LONGEST = 1_000_000_000
"""Bytes that something packed may unpack to."""


class PackingSerializer(JsonPlusSerializer):
    """Plain values and nothing else, whatever the bytes say; large ones packed, to about a fifth.

    A checkpoint is the whole of a run's state, at each step anew, and says most things many times.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

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


class OneThreadSaver(SqliteSaver):
    """Checkpoints in a SQLite file. Open one a file and process, by `opened`; close it with `aclose`.

    Each operation is one hop to one thread. AsyncSqliteSaver hops for every cursor, statement and commit, which costs
    several times what SQLite itself does.
    """

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        super().__init__(connection, serde=PackingSerializer())
        self._thread = thread

    @classmethod
    async def opened(cls, path: Path) -> OneThreadSaver:
        """A saver on a file, which is made if it is missing.

        Raises:
            OSError, sqlite3.Error: It can't be opened, or is no database of checkpoints.
        """
        thread = ThreadPoolExecutor(1, "checkpoints")

        def opening() -> OneThreadSaver:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
            try:
                saver = cls(connection, thread)
                saver.setup()
                # WAL with NORMAL survives a killed process; only a power cut can lose the last commits.
                connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                connection.close()
                raise
            return saver

        try:
            return await asyncio.get_running_loop().run_in_executor(thread, opening)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def aclose(self) -> None:
        """Finish what is under way, and close the file."""
        await self.hop(self.conn.close)
        self._thread.shutdown(wait=False)

    async def hop(self, call: Callable[..., Found], *args: Any, **options: Any) -> Found:
        """Do something in the connection's thread; it is done even if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, functools.partial(call, *args, **options)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver`."""
        return await self.hop(self.get_tuple, config)

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
        return await self.hop(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `BaseCheckpointSaver`."""
        await self.hop(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `BaseCheckpointSaver`."""
        await self.hop(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `BaseCheckpointSaver`."""
        return await self.hop(self.get_delta_channel_history, config=config, channels=channels)
