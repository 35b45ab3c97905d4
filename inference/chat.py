"""Chat messages, schemas and replies. Replies are untrusted and validated here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inference.structured import Token, well_formed

_LONGEST_REPLY, _LONGEST_NAME = 1_000_000, 200
"""Maximum characters read of a reply, and of a name in it."""
_ROUNDING = 0.01
_LEAST_LOGPROB = -10_000.0


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON schema the reply must follow; its name reaches the server's log."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """A completion."""

    text: str
    """Without the reasoning of a thinking model."""
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish_reason: str
    started: float
    seconds: float
    tokens: tuple[Token, ...] = ()
    """All generated tokens with log-probabilities; empty unless asked for and given."""
    cached: bool = False


def read_reply(answer: Any, model: str, started: float, seconds: float) -> Reply:
    """Parse a completion.

    Raises:
        TypeError, KeyError, IndexError: It is not a chat completion.
    """
    choice = answer["choices"][0]
    content = choice["message"].get("content")
    usage = _mapping(answer.get("usage"))
    return Reply(
        text=well_formed(without_reasoning((content if isinstance(content, str) else "")[:_LONGEST_REPLY])),
        model=name_of(answer.get("model")) or model,
        prompt_tokens=_tokens_used(usage.get("prompt_tokens")),
        completion_tokens=_tokens_used(usage.get("completion_tokens")),
        cached_tokens=_tokens_used(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        finish_reason=name_of(choice.get("finish_reason")),
        started=started,
        seconds=seconds,
        tokens=_tokens(choice.get("logprobs")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def name_of(value: object) -> str:
    """A name reported by a server, bounded and printable, for the ledger."""
    return str(well_formed(value))[:_LONGEST_NAME] if isinstance(value, str) else ""


def _tokens_used(value: object) -> int:
    """A token count reported by a server; 0 if invalid."""
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def without_reasoning(text: str) -> str:
    """The text after a thinking model's reasoning; "" if the reasoning was cut off.

    Some chat templates write `<think>` themselves, so that only its end is in the reply. A reply that is JSON from its
    first character on has no reasoning, whatever its strings say.
    """
    text = text.lstrip()
    if text.startswith(("{", "`")):
        return text
    reasoning, end, answer = text.partition("</think>")
    if end:
        return answer.lstrip()
    return "" if reasoning.startswith("<think>") else text


def _tokens(logprobs: Any) -> tuple[Token, ...]:
    """The tokens; empty if any of them or its log-probability is invalid."""
    try:
        return tuple(_token(row) for row in (logprobs or {}).get("content") or [])
    except (TypeError, ValueError, KeyError, AttributeError):
        return ()


def _token(row: Mapping[str, Any]) -> Token:
    def raw(entry: Mapping[str, Any]) -> bytes:
        return bytes(entry["bytes"]) if entry.get("bytes") is not None else str(entry["token"]).encode()

    top = {raw(entry).decode(errors="replace"): _logprob(entry) for entry in row.get("top_logprobs") or []}
    return Token(raw(row), _logprob(row), top)


def _logprob(entry: Mapping[str, Any]) -> float:
    """The log-probability, clamped to 0, which rounding may exceed slightly. Some servers report -inf.

    Raises:
        ValueError: It is well above 0, or not a number.
    """
    value = float(entry["logprob"])
    if math.isnan(value) or value > _ROUNDING:
        raise ValueError(f"{value} is no log-probability")
    return max(_LEAST_LOGPROB, min(0.0, value))
