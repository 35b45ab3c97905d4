"""Examples as chats: a prompt, exactly as a node sends it, and the reply that it should get."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from inference.chat import Message
from inference.errors import InputError
from training.rows import rows_of, text_of


class ChatMessage(TypedDict):
    """A message, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatSchema(TypedDict):
    """The JSON schema that a node asks a reply of."""

    name: str
    schema: dict[str, Any]


class Chat(TypedDict):
    """An example as a line of a data set. trl trains on `prompt` and `completion`; the rest counts and evaluates."""

    id: str
    skill: str
    """What it teaches: examples of one skill begin with the same instructions."""
    label: str
    source: str
    question: str
    prompt: list[ChatMessage]
    completion: list[ChatMessage]
    schema: NotRequired[ChatSchema]
    """Missing: any text is a reply."""


def messages_of(chat: Chat) -> list[Message]:
    """The prompt of a chat, for an endpoint."""
    return [Message(message["role"], message["content"]) for message in chat["prompt"]]


def read_chats(path: Path, skills: Collection[str] | None = None) -> Iterator[Chat]:
    """Chats of a JSON Lines file.

    Args:
        path: The file.
        skills: Those that there may be; None: any.

    Raises:
        InputError: It is missing or malformed; the message names file, line and field.
    """
    for where, row in rows_of(path):
        if skills is not None and row.get("skill") not in skills:
            raise InputError(f"{where}: field 'skill' must be one of {', '.join(skills)}", hint=_HINT)
        for field in ("prompt", "completion"):
            messages = row.get(field)
            if not isinstance(messages, list) or not messages or not all(_is_message(one) for one in messages):
                raise InputError(f"{where}: field '{field}' must be a list of chat messages", hint=_HINT)
        for field in ("id", "skill", "label", "question"):
            text_of(row, field, where)
        if "schema" in row and not _is_schema(row["schema"]):
            raise InputError(f"{where}: field 'schema' must be an object with a name and a schema", hint=_HINT)
        yield cast(Chat, row)


_HINT = "training.revelator.build and training.agents.build make such files"


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("system", "user", "assistant")
        and isinstance(value.get("content"), str)
    )


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("schema"), dict)
