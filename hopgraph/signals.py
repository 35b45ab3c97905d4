"""Handling of SIGINT (ctrl-C) and SIGTERM by commands. No heavy imports: the handlers are installed first."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

EXITS = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit code by signal, as in shells: 128 plus its number."""
NAMES = {signal.SIGINT: "ctrl-C", signal.SIGTERM: "SIGTERM"}
_SHOW_CURSOR = b"\x1b[?25h"
_printed = False
"""Whether the command's JSON has been printed: a signal must not add a second value."""


class Stopped(BaseException):
    """A signal has stopped the command, and its work is saved.

    Not a `KeyboardInterrupt`, which asyncio and typer handle themselves.

    Args:
        number: The signal.
        how_to_resume: How to resume, already printed; "" if it can't be resumed.
    """

    def __init__(self, number: int, how_to_resume: str = "") -> None:
        super().__init__(number)
        self.number = number
        self.how_to_resume = how_to_resume
        self.exit_code = EXITS[signal.Signals(number)]


def stop_at_once() -> None:
    """Install handlers that end the process immediately with one line, for commands without work to save.

    Python's default handler raises at any point: in an import, a destructor, the interpreter's shutdown.
    """
    for number in EXITS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # shells ignore SIGINT for background processes
            signal.signal(number, at_once)


def at_once(number: int, _frame: object) -> None:
    """Handler: print one line and end the process."""
    with suppress(OSError):  # the reader is gone
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)  # a progress line may have hidden it
        # Not print(): the signal may have interrupted one.
        os.write(2, b"hopgraph: stopped\n")
        if wants_json(sys.argv[1:]) and not _printed:
            os.write(1, json.dumps(stopped(number)).encode() + b"\n")
    os._exit(EXITS[signal.Signals(number)])


def stopped(number: int, how_to_resume: str = "") -> dict[str, Any]:
    """JSON output of a command stopped by a signal: see `hopgraph.cli.errors`."""
    which = signal.Signals(number)
    row = {"kind": "stopped", "message": f"stopped by {NAMES[which]}", "hint": how_to_resume, "exit_code": EXITS[which]}
    return {"error": row}


def wants_json(words: Sequence[str]) -> bool:
    """Whether a command line has `--json`; errors may occur before it is parsed."""
    before = list(words)[: list(words).index("--")] if "--" in words else words
    return "--json" in before


def printed() -> None:
    """Record that the command's JSON is being printed."""
    global _printed
    _printed = True
