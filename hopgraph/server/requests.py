"""Requests of `POST /v1/chat/completions`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hopgraph.contexts import from_text
from hopgraph.methods import make_context
from hopgraph.origins import check_thread
from hopgraph.server.errors import ApiError
from hopgraph.server.history import Turn
from hopgraph.server.models import find_model
from hopgraph.server.options import History, Options
from nodes.intake import check_question
from nodes.kit.context import Context

_PREFIX = "hopgraph."
"""Begins the keys of `metadata` that are ours; other programs keep their own there."""


class _Part(BaseModel):
    type: str
    text: str = ""


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        """The message as text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [])


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Body(BaseModel):
    """The fields that are read; sampling fields and tools are ignored, as a method has calls of several kinds."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[_Message] = Field(min_length=1, max_length=10_000)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: Literal[1] | None = None
    metadata: dict[str, Any] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    history: History | None = None
    thread: str | None = None


@dataclass(frozen=True)
class ChatRequest:
    """A checked request."""

    model: str
    """As given."""
    context: Context
    question: str
    """The last message."""
    turns: list[Turn]
    """The earlier ones that the question may refer to."""
    thread: str | None
    """Thread to continue, or to begin."""
    stream: bool
    usage: bool
    """Whether the stream ends with its usage."""

    @property
    def id(self) -> str:
        """Question id: the same for the same request, so that a thread is continued by no other."""
        settings = self.context.model_dump_json(exclude_unset=True)
        text = json.dumps([self.context.method, settings, self.turns, self.question])
        return f"chat-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:24]}"


def read_request(body: bytes, thread: str | None, options: Options) -> ChatRequest:
    """Parse and check a request. Reads folders of indexes.

    Args:
        body: Its body.
        thread: The thread of its header, if it has one.
        options: The server's.

    Raises:
        ApiError: It is malformed, or names an unknown model.
        InputError: A setting or the question is invalid.
    """
    try:
        given = _Body.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"{name or 'body'}: {first['msg']}", code="malformed", param=name or None) from None
    last = given.messages[-1]
    if last.role != "user":
        raise ApiError(400, "messages: the last one must be the user's question", code="malformed", param="messages")
    if isinstance(last.content, list) and (other := [part.type for part in last.content if part.type != "text"]):
        raise ApiError(400, f"messages: {other[0]} is not supported, only text", code="unsupported", param="messages")
    found = find_model(given.model, options.index)
    settings, history, own_thread = _own(given)
    if "index" in settings:
        raise ApiError(400, "index: the model names it, such as prism:NAME", code="input", param="index")
    context = make_context(found.method, {**settings, **({"index": found.index} if found.index else {})})
    wanted = thread or own_thread
    earlier = [row for row in given.messages[:-1] if row.role in ("user", "assistant") and row.text.strip()]
    return ChatRequest(
        model=given.model,
        context=context,
        question=check_question(last.text),
        turns=[Turn(row.role, row.text) for row in earlier] if (history or options.history) == "rewrite" else [],
        thread=check_thread(wanted) if wanted else None,
        stream=bool(given.stream),
        usage=bool(given.stream_options and given.stream_options.include_usage),
    )


def _own(given: _Body) -> tuple[dict[str, Any], History | None, str | None]:
    """Settings, history and thread, of `metadata` and of the body; the body has precedence.

    Raises:
        ApiError: `history` has an unknown value.
    """
    named = {
        key.removeprefix(_PREFIX): value for key, value in (given.metadata or {}).items() if key.startswith(_PREFIX)
    }
    history, thread = named.pop("history", None), named.pop("thread", None)
    if history not in (None, "off", "rewrite"):
        raise ApiError(400, "history: must be off or rewrite", code="input", param="metadata")
    read = {key: from_text(value) if isinstance(value, str) else value for key, value in named.items()}
    return {**read, **given.settings}, given.history or history, given.thread or (str(thread) if thread else None)
