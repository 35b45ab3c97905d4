"""Who may call the server: checks of host, origin, API key, type and size before a request is read.

Without an API key only programs of this machine may call it: a web page that a browser shows must not, neither across
sites (`Origin`, `Sec-Fetch-Site`) nor by a name that resolves to 127.0.0.1 (`Host`).
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from hopgraph.server.errors import ApiError
from inference.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hopgraph.server.options import Options

_HERE = frozenset({"127.0.0.1", "localhost", "::1"})
_OPEN = frozenset({"/health"})
"""Paths that need no API key."""


class Guard:
    """ASGI middleware that refuses requests.

    Args:
        app: The application.
        options: Key, origins and largest body.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = Headers(scope=scope)
            try:
                self._check_caller(scope, headers)
                self._check_body(scope, headers)
                await self._app(scope, self._limited(receive), send)
            except ApiError as error:
                await error.response()(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _check_caller(self, scope: Scope, headers: Headers) -> None:
        key = self._options.key
        if key is None and _hostname(headers.get("host", "")) not in _HERE:
            raise ApiError(
                403, "the header Host does not name this machine (HOPGRAPH_API_KEY allows others)", code="host"
            )
        origin = headers.get("origin")
        own = (f"http://{headers.get('host')}", f"https://{headers.get('host')}")
        if origin is not None and origin not in (*own, *self._options.origins):
            raise ApiError(403, "web pages of other origins are refused (see --allow-origin)", code="origin")
        if origin is None and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ApiError(403, "requests of other sites are refused (see --allow-origin)", code="origin")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if key is not None and path not in _OPEN and not _is_key(headers.get("authorization", ""), key):
            raise ApiError(
                401,
                "missing or wrong API key: send `Authorization: Bearer KEY` with the server's HOPGRAPH_API_KEY",
                type="authentication_error",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )

    def _check_body(self, scope: Scope, headers: Headers) -> None:
        if scope["method"] != "POST":
            return
        # A form of another site can't send this type without asking first.
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "the body must have content-type application/json", code="content_type")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise ApiError(400, "malformed content-length", code="content_length")
        if int(length) > self._options.body:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._options.body:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self._options.body:,} bytes", code="body_too_large")


def check_origin(origin: str) -> None:
    """Check what an administrator allows.

    Raises:
        InputError: It is not the origin of a web page.
    """
    if origin == "*" or not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
        raise InputError(f"--allow-origin {origin}: not an origin", hint="for example http://127.0.0.1:3000")


def _hostname(host: str) -> str:
    """The name in a Host header, without port; "" if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_key(authorization: str, key: str) -> bool:
    """Whether a header carries the key; takes the same time for every wrong key of a length."""
    scheme, _, given = authorization.partition(" ")
    return hmac.compare_digest(given.strip().encode(), key.encode()) and scheme.lower() == "bearer"
