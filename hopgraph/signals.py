"""What SIGINT (ctrl-C) and SIGTERM do to a command. Imports nothing heavy: it is installed first."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

__all__ = ["EXITS", "Stopped", "at_once", "printed", "stop_at_once", "stopped", "wants_json"]

EXITS = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit code by signal, as a shell counts it: 128 and the number."""
NAMES = {signal.SIGINT: "ctrl-C", signal.SIGTERM: "SIGTERM"}
_SHOW_CURSOR = b"\x1b[?25h"
_printed = False
"""Whether the command's JSON is on stdout already: a signal must not add a second value."""


class Stopped(BaseException):
    """A signal has stopped the command, and its work is saved.

    No `KeyboardInterrupt`: asyncio and typer treat that in ways of their own.

    Args:
        number: The signal.
        goes_on: How to resume, already printed; "" if it can't be resumed.
    """

    def __init__(self, number: int, goes_on: str = "") -> None:
        super().__init__(number)
        self.number = number
        self.goes_on = goes_on
        self.exit_code = EXITS[signal.Signals(number)]


def stop_at_once() -> None:
    """From now on a signal ends the process at once with one line: there is nothing to save.

    Python's own handler raises in the middle of whatever runs: an import, a destructor, the interpreter's shutdown.
    """
    for number in EXITS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell starts what it puts into the background
            signal.signal(number, at_once)


def at_once(number: int, _frame: object) -> None:
    """The handler that does it."""
    with suppress(OSError):  # the reader is gone
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)  # a progress line may have hidden it
        # Not print(): what was interrupted may be in the middle of one.
        os.write(2, b"hopgraph: stopped\n")
        if wants_json(sys.argv[1:]) and not _printed:
            os.write(1, json.dumps(stopped(number)).encode() + b"\n")
    os._exit(EXITS[signal.Signals(number)])


def stopped(number: int, goes_on: str = "") -> dict[str, Any]:
    """The JSON of a command that a signal has stopped: see `hopgraph.cli.errors`."""
    which = signal.Signals(number)
    row = {"kind": "stopped", "message": f"stopped by {NAMES[which]}", "hint": goes_on, "exit_code": EXITS[which]}
    return {"error": row}


def wants_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, which may have to be known before it is parsed."""
    before = list(words)[: list(words).index("--")] if "--" in words else words
    return "--json" in before


def printed() -> None:
    """Say that the command's JSON is about to be on stdout."""
    global _printed
    _printed = True
