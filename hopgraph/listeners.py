"""Callbacks of a run: maps LangGraph's stream to steps and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from nodes.kit.events import Event, StepEvent
from nodes.kit.state import Step

if TYPE_CHECKING:
    from langgraph.types import StreamMode


class Listeners:
    """Passes the steps and events of a run to its callbacks."""

    def __init__(self, on_step: Callable[[Step], None] | None, on_event: Callable[[Event], None] | None) -> None:
        self._on_step = on_step
        self._on_event = on_event
        self._reported: dict[str, Step] = {}
        # A stream mode without a callback is off, because each item wakes the event loop.
        self.modes: list[StreamMode] = ["updates"] if on_step or on_event else []
        self.modes += ["custom"] if on_event else []

    def __call__(self, mode: str, update: Any) -> None:
        """Report one item of the stream."""
        if mode == "custom" and self._on_event is not None:
            self._on_event(cast("Event", update))
        for row in _steps(update) if mode == "updates" else ():
            # When a subgraph ends, its steps are repeated in the update of the enclosing graph.
            if self._reported.get(row["id"]) == row:
                continue
            self._reported[row["id"]] = row
            if self._on_step is not None:
                self._on_step(row)
            if self._on_event is not None:
                self._on_event(StepEvent(type="step", step=row))


def _steps(update: Any) -> list[Step]:
    if not isinstance(update, dict):
        return []
    changes = [change.get("trajectory") for change in update.values() if isinstance(change, dict)]
    return [row for rows in changes if isinstance(rows, list) for row in rows]  # a reset is not a list
