"""Checkpointers for `load`: one opened by place, for synchronous and asynchronous calls, and other people's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from hopgraph.background import background_loop, run
from stores.checkpoints import open_checkpoints

__all__ = ["asynchronous", "opened"]

Saver = BaseCheckpointSaver[str]
Result = TypeVar("Result")


def opened(place: str | Path) -> Saver:
    """The checkpointer at a place, open until Python exits; the same one each time, usable from any event loop.

    Args:
        place: A SQLite file, made if it is missing, or a postgresql:// URL.

    Raises:
        StoreError, InputError: As `stores.checkpoints.open_checkpoints`.
    """
    text = str(place)
    return _opened(text if "://" in text else str(Path(text).absolute()), background_loop())


@lru_cache
def _opened(place: str, loop: asyncio.AbstractEventLoop) -> Saver:
    async def enter() -> _Elsewhere:
        opening = open_checkpoints(place)
        saver = _Elsewhere(await opening.__aenter__(), loop)
        saver.opening = opening  # left open
        return saver

    return run(enter())


def asynchronous(saver: Any) -> Any:
    """A checkpointer that asynchronous graphs can use: one with synchronous methods alone is called in threads."""
    if not isinstance(saver, BaseCheckpointSaver):
        return saver
    inherited = (BaseCheckpointSaver.aget_tuple, SqliteSaver.aget_tuple)  # these raise NotImplementedError
    return _InThreads(saver) if type(saver).aget_tuple in inherited else saver


class _Delegating(BaseCheckpointSaver[str]):
    """A checkpointer whose asynchronous methods are done by another one, somewhere else."""

    def __init__(self, inner: Saver) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner
        self.place = getattr(inner, "place", "")

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self.inner.get_next_version(current, channel)

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
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
        for found in await self._call("list", config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put: RunnableConfig = await self._call("put", config, checkpoint, metadata, new_versions)
        return put

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._call("put_writes", config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._call("delete_thread", thread_id)

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        history: Mapping[str, Any] = await self._call("get_delta_channel_history", config=config, channels=channels)
        return history


class _InThreads(_Delegating):
    """Over a synchronous checkpointer, such as LangGraph's `SqliteSaver`."""

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        def call() -> Any:
            result = getattr(self.inner, name)(*args, **options)
            return list(result) if name == "list" else result

        return await asyncio.to_thread(call)


class _Elsewhere(_Delegating):
    """Over an asynchronous checkpointer that belongs to the background loop; this one may be used in any."""

    opening: object = None

    def __init__(self, inner: Saver, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(inner)
        self._loop = loop

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        async def listed() -> list[CheckpointTuple]:
            return [found async for found in self.inner.alist(*args, **options)]

        call: Callable[..., Coroutine[Any, Any, Any]] = getattr(self.inner, f"a{name}")
        work = listed() if name == "list" else call(*args, **options)
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
