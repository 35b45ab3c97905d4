"""Draining: a process that is to end starts no more model calls and waits for those in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["answered", "begin", "draining", "finish", "in_flight", "on_drain", "request"]

_draining = False
_in_flight = 0
_waiting: asyncio.Future[None] | None = None
_told: list[Callable[[], None]] = []


def begin() -> None:
    """Begin no request any more. Call it in the event loop's thread."""
    global _draining
    _draining = True
    for tell in list(_told):
        tell()


def finish() -> None:
    """Drained; requests may be made again (in a process that lives on)."""
    global _draining
    _draining = False


def draining() -> bool:
    """Whether no request begins any more."""
    return _draining


def in_flight() -> int:
    """Requests that were sent and are not answered yet."""
    return _in_flight


async def answered() -> None:
    """Wait until no request is in flight. Call it after `begin`."""
    global _waiting
    while _in_flight:
        _waiting = asyncio.get_running_loop().create_future()
        await _waiting


@asynccontextmanager
async def request() -> AsyncIterator[None]:
    """Around a request. While the process drains, a new one waits here until it is cancelled."""
    global _in_flight
    if _draining:
        await asyncio.get_running_loop().create_future()
    _in_flight += 1
    try:
        yield
    finally:
        _in_flight -= 1
        if _waiting is not None and not _waiting.done():
            _waiting.set_result(None)


@asynccontextmanager
async def on_drain(tell: Callable[[], None]) -> AsyncIterator[None]:
    """Have `tell` called when draining begins, or now if it has."""
    _told.append(tell)
    try:
        if _draining:
            tell()
        yield
    finally:
        _told.remove(tell)
