"""The event loop of the commands: uvloop, in which a model call costs less CPU time than in asyncio's own."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`."""
    import uvloop

    return uvloop.run(main)
