"""JSON from one server over connections that are kept: what it refuses, and which failures may pass."""

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

__all__ = ["Connections", "Refusal", "may_pass", "passes", "root_cause", "seconds_to_wait"]

RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Besides 5xx. A 400 is the request's fault and comes back the same."""
_NEVER = frozenset({501, 505})
"""Of 5xx: what the server does not implement."""
CONNECT_TIMEOUT = 10.0
_HERE = ("127.0.0.1", "localhost", "::1")
_KEPT_ALIVE = 3.0
"""Seconds that an idle connection is kept: less than the 5 s after which vLLM's server closes it."""


_LONGEST_EVENT = 1_000_000
"""Bytes."""


class Refusal(Exception):
    """An answer with a status that is none of success."""

    def __init__(self, status: int, detail: object, retry_after: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.detail = detail
        """What the server says."""
        self.retry_after = retry_after


class Connections:
    """Connections to one server, of one event loop; as many as there are requests at a time.

    Args:
        url: Of the server. A name and password in it are sent instead of the key.
        key: Sent as the bearer; "none" without one, for servers that want some.
        seconds: A connection is given up after this, and after `CONNECT_TIMEOUT` at the latest.
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
            Refusal: The server answered with a status that is none of success.
            ValueError: It is no JSON.
            OSError, TimeoutError, aiohttp.ClientError: It did not answer.
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
        """What a server answers to JSON; errors as `get`."""
        # The client's own time-outs start anew with every byte: a server that sends one now and then would never end.
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
        """Give `take` each server-sent event, read as JSON; a server that sends none, its whole answer.

        Errors as `get`; also ValueError for an event that is absurdly long.
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
        """Close them."""
        if self._sessions is not None:
            await self._sessions.aclose()
        self._open = self._sessions = None

    async def _session(self) -> aiohttp.ClientSession:
        """The session, which is closed when the event loop's asynchronous generators are: at its end."""
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
            # Not `trust_env`: that looks into the environment and into ~/.netrc anew for each request.
            proxy=_proxy(parts.scheme, parts.hostname or ""),
            headers={"Authorization": f"Bearer {self._key or 'none'}"} if parts.username is None else {},
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            yield session


def passes(status: int) -> bool:
    """Whether a refusal with this status may pass."""
    return status in RETRIED_STATUS or (status >= 500 and status not in _NEVER)


def may_pass(error: BaseException) -> bool:
    """Whether the same request may be answered later."""
    import aiohttp

    if isinstance(error, Refusal):
        return passes(error.status)
    return isinstance(error, OSError | aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)


def seconds_to_wait(error: BaseException | None) -> float:
    """Seconds that the server asks to wait (`Retry-After`); it may give a date instead."""
    wanted = error.retry_after if isinstance(error, Refusal) else ""
    try:
        return float(wanted)
    except ValueError:
        date = parsedate_tz(wanted)
        return mktime_tz(date) - time.time() if date else 0.0


def root_cause(error: BaseException) -> BaseException:
    """The innermost error that says something: "connection refused" instead of "connection error"."""
    inner = error.__cause__ or error.__context__
    return root_cause(inner) if inner is not None and str(inner) else error


def _proxy(scheme: str, host: str) -> str | None:
    """The HTTP proxy that the environment names for a server; None for one on this machine."""
    if host in _HERE or proxy_bypass(host):
        return None
    found = getproxies().get(scheme, "")
    return found if found.startswith(("http://", "https://")) else None


async def _json(answer: aiohttp.ClientResponse) -> Any:
    """What an answer holds; errors as `Connections.get`."""
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
    """What a refusing server says in JSON."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message", body) if isinstance(inner, dict) else inner
        return message or body
    return body
