"""Checks before a command starts its work, and confirmation at the terminal."""

from __future__ import annotations

import sys

import typer

from inference.errors import InputError

__all__ = ["check_endpoint", "check_index", "confirm"]


def check_index(name: str | None) -> None:
    """Check that an index exists, before a model is started."""
    from nodes.kit.passages import index_ref

    index_ref(name)


async def check_endpoint(model: str | None, generator_model: str | None = None) -> None:
    """Check that an endpoint can be used, instead of failing after the retries of the first call.

    Raises:
        InputError, EndpointError: See `Endpoint.check`.
    """
    from inference.settings import get_settings
    from nodes.kit.model import open_endpoint

    await (await open_endpoint(model)).check()
    if get_settings().server("generator").own or generator_model:
        await (await open_endpoint(generator_model, "generator")).check()


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
