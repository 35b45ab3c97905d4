"""What a command says when ctrl-C stops it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

__all__ = ["resumable", "stoppable"]

_STOPS = (KeyboardInterrupt, asyncio.CancelledError)
"""asyncio turns the first ctrl-C into a cancellation of what runs."""


@contextmanager
def stoppable(goes_on: str) -> Iterator[None]:
    """Say what goes on from here if ctrl-C stops what is done inside."""
    try:
        yield
    except _STOPS:
        _say(goes_on)
        raise


@asynccontextmanager
async def resumable(thread: str, saver: BaseCheckpointSaver[str]) -> AsyncIterator[None]:
    """The same for a run, of which nothing may be kept yet."""
    try:
        yield
    except _STOPS:
        if await saver.aget_tuple({"configurable": {"thread_id": thread}}) is not None:
            _say(f"`hopgraph resume {thread}` goes on from there")
        raise


def _say(goes_on: str) -> None:
    print(f"hopgraph: stopped; {goes_on}", file=sys.stderr, flush=True)
