"""Converts a failed request to an `EndpointError` with a hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference.errors import EndpointError, PromptTooLong, did_you_mean
from inference.http import Refusal, is_retryable, root_cause

_OVERLOADED = frozenset({429, 503, 529})
_GATEWAY = frozenset({502, 504})
_LONGEST_MESSAGE = 300
"""Maximum characters shown of a server's message."""
_TOO_LONG = re.compile(r"context.*(length|size|window|exceed)|exceed.*context|maximum model length|prompt is too long")


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a request, for messages."""

    url: str
    """Without a password."""
    prefix: str
    """Prefix of the variables that configure it, such as HOPGRAPH_LLM."""
    model: str
    models: Sequence[str]
    """Models of the server; empty if unknown."""


def is_overload(error: Exception) -> bool:
    """Whether a request failed because the server is overloaded."""
    return isinstance(error, TimeoutError) or (isinstance(error, Refusal) and error.status in _OVERLOADED)


def is_unreachable(error: Exception) -> bool:
    """Whether a request did not reach the server, its connection broke, or a proxy has no server behind it."""
    import aiohttp

    if isinstance(error, Refusal):
        return error.status in _GATEWAY
    if isinstance(error, TimeoutError):
        return isinstance(error, aiohttp.ConnectionTimeoutError)
    return isinstance(error, OSError | aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)


def explain(error: Exception, target: Target, seconds: float, secret: str) -> EndpointError:
    """The error for a request that failed.

    Args:
        error: Raised by `Connections` or while parsing the response.
        target: Where the request went.
        seconds: Its time-out.
        secret: API key, redacted in messages; "" if there is none.
    """
    import aiohttp

    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return EndpointError(
            f"{target.url} did not answer within {seconds:g} s",
            hint="raise HOPGRAPH_LLM_TIMEOUT, or see whether the server is overloaded",
        )
    if isinstance(error, Refusal):
        return _refused(error.status, _one_line(error.detail, secret), target)
    if isinstance(error, OSError | aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        cause = root_cause(error)
        return EndpointError(
            f"can't reach the model's server at {target.url}: {type(cause).__name__}: {_one_line(cause, secret)}",
            hint=f"is it running? `hopgraph doctor` tells more; unset {target.prefix}_URL to do without it",
        )
    return EndpointError(
        f"{target.url} answered with something that is not a chat completion: {_one_line(error, secret)}",
        hint=f"check {target.prefix}_URL; is there a proxy or another program at this address?",
        permanent=True,
    )


def _one_line(what: object, secret: str) -> str:
    """A server's message without markup and without the key, which some servers echo."""
    text = " ".join(re.sub(r"<[^<>]*>", " ", str(what)).split())
    text = text.replace(secret, "***") if secret else text
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def _refused(status: int, detail: str, target: Target) -> EndpointError:
    said = f": {detail}" if detail else ""
    if status in (400, 413) and _TOO_LONG.search(detail.lower()):
        return PromptTooLong(
            f"the prompt does not fit the model's context{said}", hint="set HOPGRAPH_LLM_CONTEXT", permanent=True
        )
    return EndpointError(
        f"{target.url} refused the request with status {status}{said}",
        hint=_advice(status, target),
        permanent=not is_retryable(status),
    )


def _advice(status: int, target: Target) -> str:
    if status == 404 and target.model and target.models and target.model not in target.models:
        near = did_you_mean(target.model, target.models)
        return f"set {target.prefix}_MODEL; {near}the server has {', '.join(target.models[:10])}"
    hints = {
        401: f"set {target.prefix}_API_KEY",
        403: f"set {target.prefix}_API_KEY",
        404: f"check {target.prefix}_URL (it usually ends in /v1) and {target.prefix}_MODEL",
        429: "the server is rate-limited: set a lower HOPGRAPH_LLM_CONCURRENCY",
    }
    return hints.get(status, "see the server's log")
