"""Earlier turns of a chat: its last message becomes a question of its own by one model call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from inference.ledger import Call
from nodes.kit.context import Context, prompt_field
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import quoted

_TURNS = 20
"""The last turns are read; older ones are not."""
_LONGEST = 4000
"""Characters of a turn."""


class Turn(NamedTuple):
    """A message of a chat."""

    role: str
    text: str


class Question(NamedTuple):
    """A question that stands alone, and the calls made for it."""

    text: str
    calls: list[Call]


class HistoryContext(Context):
    """Settings of the call, which is no method."""

    method = "chat"

    prompt_standalone: str | None = prompt_field("chat/standalone", "standalone")


class Standalone(BaseModel):
    """Output of the call."""

    question: str


class _State(TypedDict, total=False):
    question: str
    turns: list[tuple[str, str]]
    written: str
    ledger: list[Call]


async def stand_alone(question: str, turns: Sequence[Turn], model: str | None) -> Question:
    """A chat's last message as a question that can be understood without the chat.

    Args:
        question: The last message.
        turns: The earlier ones, oldest first. Without any the question stays as it is, and no call is made.
        model: The model's name at the endpoint; None: the default.

    Raises:
        EndpointError: The endpoint can't be used.
    """
    if not turns:
        return Question(question, [])
    given = _State(question=question, turns=[(turn.role, turn.text[:_LONGEST]) for turn in turns[-_TURNS:]])
    state = await _graph().ainvoke(given, context=HistoryContext(model=model))
    return Question(str(state["written"]), state["ledger"])


async def _ask(state: _State, runtime: Runtime[HistoryContext]) -> _State:
    lines = [f"{role}: {quoted(text)}" for role, text in reversed(state["turns"])]
    asked = await ask_model(
        runtime,
        "chat/standalone",
        Standalone,
        {"question": quoted(state["question"])},
        at="root/standalone",
        items=Items("turns", lines, places=range(len(lines), 0, -1)),
    )
    written = asked.value.question.strip() if asked.value is not None else ""
    return {"written": written or state["question"], "ledger": asked.calls}


@lru_cache
def _graph() -> Any:
    builder = StateGraph(_State, context_schema=HistoryContext)
    builder.add_node("standalone", _ask)
    builder.add_edge(START, "standalone")
    builder.add_edge("standalone", END)
    return builder.compile()
