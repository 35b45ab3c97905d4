"""A request to the model as a LangGraph task: its reply is committed when it arrives.

After a crash a resumed node gets finished replies from the checkpoint and repeats only requests that were in flight.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NotRequired

from langgraph.func import task
from typing_extensions import TypedDict

from inference.chat import Message, Reply, Schema
from inference.endpoint import Endpoint
from inference.errors import EndpointError
from inference.ledger import Call
from inference.reply_cache import ResponseCache
from inference.settings import get_settings
from inference.structured import EACH, field_logprobs, field_paths, true_probability
from nodes.kit.context import Context
from nodes.kit.streaming import ShownAnswer
from nodes.kit.tracers import traced_failure

MODEL_CALL = "model call"
"""Name of the task that makes a request."""
ALTERNATIVES = 10
"""Alternative tokens requested per position, to compare the probability of one word with another."""
_LONGEST_PROMPT = 50_000_000
"""Bytes."""


class RawReply(TypedDict):
    """Result of a request task; it goes into the checkpoint."""

    text: str
    finish_reason: str
    call: Call
    logprobs: list[float]
    prompt: bytes
    """The request, for inspecting the run later: see `unpack_prompt`."""
    probability: float | None
    each: NotRequired[list[list[float]]]
    """Log-probabilities of each scored field, where the path has `EACH`."""


@dataclass(frozen=True)
class Request:
    """Argument of a request task."""

    endpoint: Endpoint
    messages: list[Message]
    call: Call
    """All but what the reply adds."""
    schema: Schema | None
    context: Context
    score: tuple[str, ...]
    binary: bool
    shown: ShownAnswer | None
    """Streams the answer to listeners; None if the reply has no answer."""


async def _complete(request: Request) -> Reply:
    return await request.endpoint.complete(
        request.messages,
        request_id=request.call["id"],
        schema=request.schema,
        temperature=request.context.temperature,
        max_tokens=request.context.max_tokens,
        seed=request.context.seed,
        top_logprobs=(ALTERNATIVES if request.binary else 0) if request.score else None,
        cache=await _cache(),
        on_failure=traced_failure,
    )


async def _send(request: Request) -> RawReply:
    if request.shown is None:
        reply = await _complete(request)
    else:
        async with request.shown.streaming() as end:
            reply = await _complete(request)
            await end(reply.text)
    if request.score and reply.text and not reply.tokens:
        raise EndpointError(
            f"{request.endpoint.shown} gives no log-probabilities, and {request.context.method} needs them",
            hint=f"use a server that gives them (vLLM and llama.cpp do), or {request.context.without_logprobs}",
            permanent=True,
        )
    call: Call = {
        **request.call,
        "model": reply.model,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "cached_tokens": reply.cached_tokens,
        "started": round(reply.started, 3),
        "seconds": round(reply.seconds, 3),
        "finish_reason": reply.finish_reason,
        "cached": reply.cached,
    }
    paths = field_paths(reply.text, request.score) if request.score else []
    each = [[token.logprob for token in field_logprobs(reply.text, reply.tokens, path)] for path in paths]
    raw = RawReply(
        text=reply.text,
        finish_reason=reply.finish_reason,
        call=call,
        logprobs=[value for values in each for value in values],
        prompt=pack_prompt(request.messages),
        probability=true_probability(reply.text, reply.tokens, request.score) if request.binary else None,
    )
    return {**raw, "each": each} if EACH in request.score else raw


def pack_prompt(messages: Sequence[Message]) -> bytes:
    """Messages, compressed for the checkpoint, since they contain passages."""
    return zlib.compress(json.dumps([[message.role, message.content] for message in messages]).encode(), 1)


def unpack_prompt(packed: bytes) -> list[tuple[str, str]]:
    """Role and text of each message; validated, since checkpoints are untrusted.

    Raises:
        ValueError: It is not a packed prompt, or too long.
    """
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _LONGEST_PROMPT)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail:
        raise ValueError("too long")
    try:
        return [(str(role), str(content)) for role, content in json.loads(text)]
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


send: Callable[[Request], Awaitable[RawReply]] = task(_send, name=MODEL_CALL)  # type: ignore[call-overload]


async def _cache() -> ResponseCache | None:
    settings = get_settings()
    if settings.cache == "off":
        return None
    from stores.responses import open_responses

    return await asyncio.to_thread(open_responses, settings.home / "responses.sqlite")
