"""The event loop of the commands: uvloop, in which a model call takes less CPU time than in asyncio's loop."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hopgraph.signals import Stopped

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`."""
    import uvloop

    try:
        return uvloop.run(main)
    except (KeyboardInterrupt, Stopped):
        # A second ctrl-C closes the loop while its threads still run, which by default prints a traceback.
        shown = threading.excepthook
        threading.excepthook = lambda end: None if str(end.exc_value) == "Event loop is closed" else shown(end)
        raise
