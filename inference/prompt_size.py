"""Checks that a prompt fits a model's context, with the server's tokenizer where an estimate is inconclusive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inference.base_url import server_root
from inference.chat import Message
from inference.http import Connections, Refusal

if TYPE_CHECKING:
    from inference.server_info import ServerInfo

_TEMPLATE_TOKENS = 32
"""Tokens added by a chat template, per message and for a default system message."""


async def fits(
    messages: Sequence[Message], max_tokens: int, limit: int | None, count: Callable[[], Awaitable[int | None]]
) -> bool:
    """Whether a prompt leaves `max_tokens` of a context for the completion.

    A token has at least one byte, so a short prompt fits without counting. A longer one is counted by the server, or
    estimated at three bytes per token if the server has no tokenizer.

    Args:
        messages: The prompt.
        max_tokens: Longest completion.
        limit: Context in tokens; None if unknown: everything fits.
        count: Returns the prompt's length in tokens, or None.
    """
    size = sum(len(message.content.encode()) + _TEMPLATE_TOKENS for message in messages)
    if limit is None or size + _TEMPLATE_TOKENS + max_tokens <= limit:
        return True
    counted = await count() if size < 64 * limit else None
    return (counted if counted is not None else size / 3) + max_tokens <= limit


async def count_tokens(
    http: Connections, url: str, info: ServerInfo, model: str, messages: Sequence[Message], switches: Any
) -> int | None:
    """Prompt length in tokens, chat template included; None if the server has no tokenizer.

    Args:
        http: Connections to the server.
        url: Its base URL.
        info: Its description; vLLM and llama.cpp have tokenizers.
        model: Model name.
        messages: The prompt.
        switches: `chat_template_kwargs` of the requests, if any.
    """
    import aiohttp

    if info.kind == "other":
        return None
    is_llama = info.kind == "llama.cpp"
    place = f"{url}/chat/completions/input_tokens" if is_llama else f"{server_root(url)}/tokenize"
    body = {"model": model, "messages": [asdict(message) for message in messages]}
    if switches:
        body["chat_template_kwargs"] = switches
    try:
        answer = await http.post(place, body, 30.0)
    except (Refusal, OSError, aiohttp.ClientError, ValueError):
        return None
    count = answer.get("input_tokens" if is_llama else "count") if isinstance(answer, dict) else None
    return count if isinstance(count, int) else None
