"""Graceful shutdown: a draining process starts no new model calls and waits for those in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_draining = False
_in_flight = 0
_waiting: asyncio.Future[None] | None = None
_told: list[Callable[[], None]] = []


def begin() -> None:
    """Start draining: no new requests from now on. Call it in the event loop's thread."""
    global _draining
    _draining = True
    for tell in list(_told):
        tell()


def finish() -> None:
    """Stop draining: new requests are allowed again, for a process that keeps running."""
    global _draining
    _draining = False


def draining() -> bool:
    """Whether new requests are held back."""
    return _draining


def in_flight() -> int:
    """Number of requests awaiting a reply."""
    return _in_flight


async def answered() -> None:
    """Wait until no request is in flight. Call it after `begin`."""
    global _waiting
    while _in_flight:
        _waiting = asyncio.get_running_loop().create_future()
        await _waiting


@asynccontextmanager
async def request() -> AsyncIterator[None]:
    """Track a request. While the process drains, a new one waits here until it is cancelled."""
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
    """Call `tell` when draining begins, or at once if it has begun."""
    _told.append(tell)
    try:
        if _draining:
            tell()
        yield
    finally:
        _told.remove(tell)
