"""A pool of workers whose size follows the endpoints' limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from inference.endpoints import limiters
from inference.limiter import Limiter


async def run_workers(one: Callable[[], Awaitable[None]], left: Callable[[], bool], at_once: Callable[[], int]) -> None:
    """Run tasks concurrently until none is left.

    Args:
        one: Takes a task and runs it.
        left: Whether tasks are left to take.
        at_once: Maximum tasks in flight; called whenever a limit changes or a worker becomes free.

    Raises:
        BaseExceptionGroup: Errors of `one`; the other tasks are cancelled then.
    """
    changed = asyncio.Event()
    watched: set[Limiter] = set()
    working = 0

    async def work() -> None:
        nonlocal working
        try:
            while left() and working <= at_once():
                await one()
                if not watched:  # the first task may have opened the endpoint
                    changed.set()
        finally:
            working -= 1
            changed.set()

    try:
        async with asyncio.TaskGroup() as group:
            while left():
                for limiter in set(limiters()) - watched:
                    limiter.add_listener(changed.set)
                    watched.add(limiter)
                begun = 0
                while left() and working < at_once() and begun < _AT_ONCE:
                    group.create_task(work())
                    working, begun = working + 1, begun + 1
                if begun == _AT_ONCE:
                    await asyncio.sleep(0)  # the new workers take their tasks before more workers start
                    continue
                await changed.wait()
                changed.clear()
    finally:
        for limiter in watched:
            limiter.remove_listener(changed.set)


_AT_ONCE = 64
