"""Routing by the run's settings, for the conditional edges of a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from langgraph.runtime import get_runtime

from nodes.kit.context import Context

Settings = TypeVar("Settings", bound=Context)
Target = TypeVar("Target")


def with_context(cls: type[Settings]) -> Callable[[Callable[[Any, Settings], Target]], Callable[[Any], Target]]:
    """A decorator for routing functions that depend on the run's context.

    Outside a run LangGraph has none: when a person edits a state, it asks for the edited node's successors. Then
    the run's own settings count (the state's `settings`).

    Args:
        cls: The method's context class.
    """

    def decorate(route: Callable[[Any, Settings], Target]) -> Callable[[Any], Target]:
        @wraps(route)
        def decide(state: Any) -> Target:
            runtime = get_runtime(cls)
            # A server that edits a state has a runtime without a context of ours.
            if runtime is not None and isinstance(runtime.context, cls):
                return route(state, runtime.context)
            return route(state, cls.model_validate(state.get("settings") or {}))

        return decide

    return decorate
