"""The event loop of the commands: uvloop, in which a model call takes less CPU time than in asyncio's loop."""

from __future__ import annotations

import gc
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hopgraph.signals import Stopped

Result = TypeVar("Result")
_YOUNG = 50_000
"""New objects after which Python looks for garbage in cycles; its default is 700."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`."""
    import uvloop

    collect_rarely()
    try:
        return uvloop.run(main)
    except (KeyboardInterrupt, Stopped):
        # A second ctrl-C closes the loop while its threads still run, which by default prints a traceback.
        shown = threading.excepthook
        threading.excepthook = lambda end: None if str(end.exc_value) == "Event loop is closed" else shown(end)
        raise


def collect_rarely() -> None:
    """Let Python look for garbage in cycles less often.

    Decoding a checkpoint makes thousands of lists and dictionaries, all in use: looking for garbage among them took
    most of the time of reading a long run.
    """
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
