"""Where text for people goes: as wide as the terminal, and never wrapped where something else reads it."""

from __future__ import annotations

from rich.console import Console

__all__ = ["unwrapped"]

_WIDE = 10_000


def unwrapped() -> Console:
    """A console on stdout whose lines are wrapped at a terminal's width only."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    return console
