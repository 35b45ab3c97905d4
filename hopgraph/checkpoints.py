"""Checkpointers for `load`: one opened by place, for synchronous and asynchronous calls, and other people's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import lru_cache
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from hopgraph.background import background_loop, run
from stores.async_saver import Delegating, InThreads
from stores.checkpoints import open_checkpoints

Saver = BaseCheckpointSaver[str]


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
    return InThreads(saver) if type(saver).aget_tuple in inherited else saver


class _Elsewhere(Delegating):
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
