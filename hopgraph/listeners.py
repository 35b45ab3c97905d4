"""Callbacks of a run: maps LangGraph's stream to steps, events and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from nodes.kit.events import Event, StepEvent
from nodes.kit.state import Step

if TYPE_CHECKING:
    from langgraph.types import StreamMode


class Token(NamedTuple):
    """A piece of an answer that a model writes."""

    node: str
    """The node that asked for it."""
    text: str
    message: str
    """Id of the answer it belongs to."""
    inner: bool
    """Whether the node belongs to a subgraph."""


class Listeners:
    """Passes the steps, events and tokens of a run to its callbacks.

    A stream mode without a callback is off: each item wakes the event loop, and for tokens the endpoint has to stream.
    """

    def __init__(
        self,
        on_step: Callable[[Step], None] | None,
        on_event: Callable[[Event], None] | None,
        on_token: Callable[[Token], None] | None = None,
    ) -> None:
        self._on_step = on_step
        self._on_event = on_event
        self._on_token = on_token
        self._reported: dict[str, Step] = {}
        self.modes: list[StreamMode] = ["updates"] if on_step or on_event else []
        self.modes += ["custom"] if on_event else []
        self.modes += ["messages"] if on_token else []

    def __call__(self, namespace: Sequence[str], mode: str, update: Any) -> None:
        """Report one item of the stream; `namespace` is that of its subgraph."""
        if mode == "custom" and self._on_event is not None:
            self._on_event(cast("Event", update))
        if mode == "messages" and self._on_token is not None:
            message, about = update
            self._on_token(Token(about["langgraph_node"], str(message.content), str(message.id), bool(namespace)))
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
