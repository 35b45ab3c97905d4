"""JSON over HTTP to one server with keep-alive: refusals, and which failures are transient."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    import aiohttp

RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Besides 5xx. A 400 is caused by the request and would fail again."""
_NEVER = frozenset({501, 505})
"""5xx that are not retried: the server does not implement the request."""
CONNECT_TIMEOUT = 10.0
_HERE = ("127.0.0.1", "localhost", "::1")
_KEPT_ALIVE = 3.0
"""Seconds that an idle connection is kept: less than vLLM's 5 s."""

_LONGEST_EVENT = 1_000_000
"""Maximum bytes of a server-sent event."""


class Refusal(Exception):
    """A response with a status other than 2xx."""

    def __init__(self, status: int, detail: object, retry_after: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.detail = detail
        """The server's message."""
        self.retry_after = retry_after


class Connections:
    """A connection pool to one server, for one event loop; its size is unbounded.

    Args:
        url: URL of the server. A user name and password in it are sent instead of the key.
        key: Bearer token; "none" is sent without one, for servers that require a token.
        seconds: Connect time-out, at most `CONNECT_TIMEOUT`.
    """

    def __init__(self, url: str, key: str, seconds: float) -> None:
        self._url = url
        self._key = key
        self._seconds = min(CONNECT_TIMEOUT, seconds)
        self._open: aiohttp.ClientSession | None = None
        self._sessions: AsyncGenerator[aiohttp.ClientSession, None] | None = None

    async def get(self, url: str, seconds: float) -> Any:
        """The JSON at a URL.

        Raises:
            Refusal: The status is not 2xx.
            ValueError: The body is not JSON.
            OSError, TimeoutError, aiohttp.ClientError: The server did not respond.
        """
        async with asyncio.timeout(seconds), (await self._session()).get(url) as answer:
            return await _json(answer)

    async def text(self, url: str, seconds: float) -> str:
        """The text at a URL; errors as `get`."""
        async with asyncio.timeout(seconds), (await self._session()).get(url) as answer:
            return await _text(answer)

    async def post(
        self, url: str, body: Mapping[str, Any], seconds: float, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Post JSON and return the JSON response; errors as `get`."""
        # aiohttp's read time-out restarts with every byte: a slow trickle would never time out.
        async with asyncio.timeout(seconds), (await self._session()).post(url, json=body, headers=headers) as answer:
            return await _json(answer)

    async def post_events(
        self,
        url: str,
        body: Mapping[str, Any],
        seconds: float,
        headers: Mapping[str, str],
        take: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Call `take` with each server-sent event, parsed as JSON, or with the whole response if it is not a stream.

        Errors as `get`; also ValueError for an event longer than `_LONGEST_EVENT`.
        """
        async with asyncio.timeout(seconds), (await self._session()).post(url, json=body, headers=headers) as answer:
            if not 200 <= answer.status < 300 or answer.content_type != "text/event-stream":
                await take(await _json(answer))
                return
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if not line.startswith(b"data:"):
                        continue
                    data = line.removeprefix(b"data:").strip()
                    if data == b"[DONE]":
                        return
                    await take(json.loads(data))
                if len(rest) > _LONGEST_EVENT:
                    raise ValueError(f"an event of more than {_LONGEST_EVENT:,} bytes")

    async def close(self) -> None:
        """Close all connections."""
        if self._sessions is not None:
            await self._sessions.aclose()
        self._open = self._sessions = None

    async def _session(self) -> aiohttp.ClientSession:
        """The session; it is closed with the event loop's asynchronous generators."""
        if self._open is None:
            self._sessions = self._opened()
            self._open = await anext(self._sessions)
        return self._open

    async def _opened(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        import aiohttp

        parts = urlsplit(self._url)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_ALIVE),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._seconds),
            # Not `trust_env`, which reads the environment and ~/.netrc for each request.
            proxy=_proxy(parts.scheme, parts.hostname or ""),
            headers={"Authorization": f"Bearer {self._key or 'none'}"} if parts.username is None else {},
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            yield session


def is_retryable(status: int) -> bool:
    """Whether a refusal with this status is transient."""
    return status in RETRIED_STATUS or (status >= 500 and status not in _NEVER)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    import aiohttp

    if isinstance(error, Refusal):
        return is_retryable(error.status)
    return isinstance(error, OSError | aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)


def retry_after_seconds(error: BaseException | None) -> float:
    """`Retry-After` in seconds, given as a number or a date; 0 without one."""
    wanted = error.retry_after if isinstance(error, Refusal) else ""
    try:
        return float(wanted)
    except ValueError:
        date = parsedate_tz(wanted)
        return mktime_tz(date) - time.time() if date else 0.0


def root_cause(error: BaseException) -> BaseException:
    """The innermost error with a message: "connection refused" instead of "connection error"."""
    inner = error.__cause__ or error.__context__
    return root_cause(inner) if inner is not None and str(inner) else error


def _proxy(scheme: str, host: str) -> str | None:
    """The environment's HTTP proxy for a host; None for one on this machine."""
    if host in _HERE or proxy_bypass(host):
        return None
    found = getproxies().get(scheme, "")
    return found if found.startswith(("http://", "https://")) else None


async def _json(answer: aiohttp.ClientResponse) -> Any:
    return json.loads(await _text(answer))


async def _text(answer: aiohttp.ClientResponse) -> str:
    text = (await answer.read()).decode(errors="replace")
    if 200 <= answer.status < 300:
        return text
    try:
        detail = _detail(json.loads(text))
    except (ValueError, RecursionError):
        detail = text or answer.reason
    raise Refusal(answer.status, detail, answer.headers.get("retry-after", ""))


def _detail(body: Any) -> object:
    """The message in a JSON error body."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message", body) if isinstance(inner, dict) else inner
        return message or body
    return body
