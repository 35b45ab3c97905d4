"""Questions to a person before something is lost."""

from __future__ import annotations

import sys

import typer

from inference.errors import InputError

__all__ = ["confirm"]


def confirm(question: str, *, refused: str, hint: str) -> None:
    """Ask for a yes at the terminal.

    Args:
        question: What is about to happen, as a question.
        refused: Message of the error without a terminal, or if the answer is no.
        hint: How to do it without being asked, and what else there is to do.

    Raises:
        InputError: The answer is no, or there is no terminal to ask at.
    """
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not asked or not typer.confirm(question, err=True):
        raise InputError(refused, hint=hint)
