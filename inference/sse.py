"""Streaming of a chat completion: server-sent events, merged into one completion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from inference.http import Connections, Refusal

on_text: ContextVar[Callable[[str], Awaitable[None]] | None] = ContextVar("on_text", default=None)
"""Awaited with the reply's text so far as it grows, and with "" when an attempt starts. Unset: no streaming."""


class Joined:
    """A completion merged from its chunks."""

    def __init__(self) -> None:
        self.text = ""
        self._whole: Any = None
        self._about: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._tokens: list[Any] = []

    def add(self, event: Any) -> bool:
        """Add a chunk, or a whole completion if the server does not stream; returns whether text was added.

        Raises:
            Refusal: The server reports an error in mid-stream.
            TypeError, KeyError, AttributeError: It is not a chunk.
        """
        if error := event.get("error"):
            code, detail = (error.get("code"), error.get("message", error)) if isinstance(error, dict) else (0, error)
            raise Refusal(code if isinstance(code, int) and 400 <= code < 600 else 500, detail, "")
        self._about |= {key: event[key] for key in ("model", "usage") if event.get(key)}
        for choice in (event.get("choices") or [])[:1]:
            if "message" in choice:
                self._whole = event
                return False
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            self._tokens += (choice.get("logprobs") or {}).get("content") or []
            if isinstance(piece := (choice.get("delta") or {}).get("content"), str) and piece:
                self.text += piece
                return True
        return False

    def answer(self) -> Any:
        """The completion as `inference.chat.read_reply` reads it.

        Raises:
            aiohttp.ClientPayloadError: The stream ended before the completion did.
        """
        if self._whole is not None:
            return self._whole
        if self._finish_reason is None:
            from aiohttp import ClientPayloadError

            raise ClientPayloadError("the stream ended before the reply did")
        logprobs = {"content": self._tokens} if self._tokens else None
        message = {"role": "assistant", "content": self.text}
        choice = {"message": message, "finish_reason": self._finish_reason, "logprobs": logprobs}
        return {**self._about, "choices": [choice]}


async def post_streamed(
    http: Connections,
    url: str,
    body: Mapping[str, Any],
    seconds: float,
    headers: Mapping[str, str],
    say: Callable[[str], Awaitable[None]],
) -> Any:
    """As `Connections.post` of a chat completion, with `say` told of its text; errors as there and in `Joined`."""
    joined = Joined()

    async def take(event: Any) -> None:
        if joined.add(event):
            await say(joined.text)

    await say("")
    try:
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        await http.post_events(url, streamed, seconds, headers, take)
    except Refusal as refusal:
        if refusal.status not in (400, 422) or "stream" not in str(refusal.detail).lower():
            raise
        return await http.post(url, {**body, "stream": False}, seconds, headers)  # a server that can't
    return joined.answer()
