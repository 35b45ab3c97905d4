"""Adapters that implement a checkpointer's asynchronous methods by its synchronous ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)


class AsyncMethods(BaseCheckpointSaver[str]):
    """LangGraph's asynchronous methods; a subclass's `_call` runs the synchronous ones."""

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """Run the synchronous method `name` and return its result; a list for `list`."""
        raise NotImplementedError

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver`."""
        found: CheckpointTuple | None = await self._call("get_tuple", config)
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `BaseCheckpointSaver`."""
        for found in await self._call("list", config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `BaseCheckpointSaver`."""
        put: RunnableConfig = await self._call("put", config, checkpoint, metadata, new_versions)
        return put

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `BaseCheckpointSaver`."""
        await self._call("put_writes", config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `BaseCheckpointSaver`."""
        await self._call("delete_thread", thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `BaseCheckpointSaver`."""
        history: Mapping[str, DeltaChannelHistory] = await self._call(
            "get_delta_channel_history", config=config, channels=channels
        )
        return history


class Delegating(AsyncMethods):
    """A checkpointer that delegates to another one.

    Args:
        inner: The checkpointer delegated to.
    """

    def __init__(self, inner: BaseCheckpointSaver[str]) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner
        self.place = getattr(inner, "place", "")

    def get_next_version(self, current: str | None, channel: None) -> str:
        """See `BaseCheckpointSaver`."""
        return self.inner.get_next_version(current, channel)


class InThreads(Delegating):
    """Wraps a synchronous checkpointer, such as LangGraph's `SqliteSaver`; each call runs in a worker thread."""

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(called, self.inner, name, *args, **options)


def called(saver: BaseCheckpointSaver[str], name: str, *args: Any, **options: Any) -> Any:
    """Result of a synchronous method; `list`, which is lazy, is read into a list."""
    result = getattr(saver, name)(*args, **options)
    return list(result) if name == "list" else result
