"""Checks of a run before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inference.errors import InputError
from inference.settings import get_settings

if TYPE_CHECKING:
    from nodes.kit.context import Context


def check_run(context: Context, given: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Check settings, prompts, passages, index and tracing of one question, which has no gold annotations.

    Args:
        context: The run's settings.
        given: Passages to answer from; None to search.

    Returns:
        The state's keys for a knowledge base, as `nodes.intake.check_input` gives them.

    Raises:
        InputError, StoreError: Something is wrong.
    """
    from nodes.intake import check_input

    if given is not None and context.index and not context.knowledge_base:
        raise InputError(
            f"index: {context.index} would not be searched: --contexts gives the passages to answer from",
            hint="omit --index or --contexts",
        )
    if context.oracle:
        raise InputError(
            f"{context.method}: these settings need the gold {context.oracle}, which a single question lacks",
            hint="`hopgraph eval` takes questions with gold annotations",
        )
    if get_settings().otel == "on":
        from hopgraph.telemetry import tracer

        tracer()
    return check_input(context, given)[2]
