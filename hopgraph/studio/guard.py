"""Which requests the local server takes: programs of this machine, its own page, and Studio's hosted page.

The server has no key. A web page that a browser shows must not drive it: neither across sites (`Origin`,
`Sec-Fetch-Site`), nor by a name that resolves to 127.0.0.1 (`Host`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 20_000_000
"""Largest body of a request in bytes."""
_HERE = frozenset({"127.0.0.1", "localhost", "::1"})


class TooLarge(Exception):
    """A request's body has more than `LARGEST` bytes."""


class Guard:
    """ASGI middleware that refuses requests.

    Args:
        app: The application.
        origins: Origins of web pages that may call the server, besides its own.
        linked: Path prefix of pages that other sites may link to.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str], linked: str) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._linked = linked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan" or scope.get("root_path") == "/noauth":  # the server's calls of itself
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif problem := self._problem(scope, Headers(scope=scope)):
            await PlainTextResponse(f"hopgraph studio: {problem}", 403)(scope, receive, send)
        else:
            try:
                await self._app(scope, _limited(receive), send)
            except TooLarge:
                text = f"hopgraph studio: the body is larger than {LARGEST:,} bytes"
                await PlainTextResponse(text, 413)(scope, receive, send)

    def _problem(self, scope: Scope, headers: Headers) -> str:
        """Why the request is refused; "" if it is not."""
        host = headers.get("host", "")
        if _hostname(host) not in _HERE:
            return "the header Host does not name this machine"
        origin = headers.get("origin")
        if origin is not None:
            known = origin == f"http://{host}" or origin in self._origins
            return "" if known else "web pages of other origins are refused"
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return ""
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if followed and scope["method"] == "GET" and scope["path"].startswith(self._linked):
            return ""
        return "requests of other sites are refused"


def _limited(receive: Receive) -> Receive:
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST:
            raise TooLarge
        return message

    return limited


def _hostname(host: str) -> str:
    """The name in a Host header, without port; "" if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
