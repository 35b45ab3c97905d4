"""Response cache: protocol, keys and serialization."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from inference.chat import Message, Reply
from inference.structured import Token

_UNFINISHED = frozenset({"length", "content_filter", "abort", "error"})
"""Finish reasons of incomplete replies, which are not cached."""


class ResponseCache(Protocol):
    """Stores replies by key; see `stores.responses`."""

    async def get(self, key: str) -> str | None:
        """The stored reply, or None."""

    async def put(self, key: str, value: str) -> None:
        """Store a reply."""


def cache_key(model: str, messages: Sequence[Message], body: Mapping[str, Any]) -> str:
    """Key of a request: a hash of everything the reply depends on."""
    request = [model, [asdict(message) for message in messages], body]
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()


def worth_caching(reply: Reply) -> bool:
    """Whether a reply is complete; another attempt may improve an incomplete one."""
    return reply.finish_reason not in _UNFINISHED


def pack_reply(reply: Reply) -> str:
    """Serialize a reply for the cache."""
    fields = asdict(reply) | {"tokens": [[t.text.hex(), t.logprob, t.top] for t in reply.tokens]}
    return json.dumps(fields)


def unpack_reply(stored: str | None) -> Reply | None:
    """Deserialize a reply; None if there is none or another version wrote it."""
    try:
        fields = json.loads(stored or "")
        fields["tokens"] = tuple(Token(bytes.fromhex(text), logprob, top) for text, logprob, top in fields["tokens"])
        return Reply(**fields | {"cached": True, "started": time.time(), "seconds": 0.0})
    except (ValueError, TypeError, KeyError):
        return None
