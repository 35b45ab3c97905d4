"""Errors of the command line: plain text on stderr, and with `--json` one JSON object on stdout.

The object is `{"error": {"kind", "message", "hint", "exit_code"}}`. `kind` is one of `input store endpoint deadline
prompt_too_long model_output` (see `inference.errors`), `usage` (an unknown option or invalid value), `stopped` (by a
signal) or `internal` (a bug, with a traceback on stderr). `hint` may be "".
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from hopgraph.signals import EXITS, Stopped, printed, stopped, wants_json
from inference.errors import HopgraphError

_USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""click's `ClickException`, which typer bundles without exporting it."""


class Leave(Exception):
    """The command has failed, and its error has been printed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def print_json(value: Any) -> None:
    """Print a command's JSON, its only output on stdout."""
    printed()
    print(json.dumps(value, ensure_ascii=False), flush=True)


def note(text: str) -> None:
    """Print a line on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def reported(words: Sequence[str]) -> Iterator[None]:
    """Print the errors raised inside.

    Args:
        words: The command line.

    Raises:
        Leave: An error that a user can cause was raised.
    """
    as_json = wants_json(words)
    try:
        yield
    except HopgraphError as error:
        note(f"hopgraph: {error.message}")
        if error.hint:
            note(f"  {error.hint}")
        raise _left(as_json, error.kind, error.message, error.hint, error.exit_code) from None
    except Stopped as stop:
        if as_json:
            print_json(stopped(stop.number, stop.how_to_resume))
        raise Leave(stop.exit_code) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("hopgraph: stopped")
        if as_json:
            print_json(stopped(signal.SIGINT))
        raise Leave(EXITS[signal.SIGINT]) from None
    except typer.Abort:
        note("hopgraph: aborted")
        raise _left(as_json, "usage", "aborted", "", 1) from None
    except _USAGE as error:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)  # type: ignore[arg-type]
        shown = error.format_message()  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context else "hopgraph --help"
        raise _left(as_json, "usage", shown, hint, error.exit_code) from None  # type: ignore[attr-defined]
    except Exception as error:
        if as_json:
            print_json(_row("internal", f"{type(error).__name__}: {error}", "this is a bug: please report it", 1))
        raise


def _left(as_json: bool, kind: str, message: str, hint: str, code: int) -> Leave:
    if as_json:
        print_json(_row(kind, message, hint, code))
    return Leave(code)


def _row(kind: str, message: str, hint: str, code: int) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "hint": hint, "exit_code": code}}
