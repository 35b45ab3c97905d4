"""The console for text output: as wide as the terminal, unwrapped if piped."""

from __future__ import annotations

from rich.console import Console

_WIDE = 10_000


def unwrapped() -> Console:
    """A console on stdout that wraps lines only at a terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    return console
