"""The page of `hopgraph studio`: the bundle that `studio/` builds, with headers that confine it to this server."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

PATH = "/studio"
"""Path of the page."""
_BUNDLE = files("hopgraph.studio").joinpath("bundle")
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Of every answer of the page."""


async def page(request: Request) -> Response:
    """A file of the bundle; the page itself for the empty path."""
    name = request.path_params.get("file") or "index.html"
    found = bundle().get(name)
    if found is None:
        raise HTTPException(404, f"no file {name[:100]!r}")
    content, media, tag = found
    headers = HEADERS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


async def to_page(request: Request) -> Response:
    """The address without its last slash."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{PATH}/{query}", headers=HEADERS)


@lru_cache
def bundle() -> dict[str, tuple[bytes, str, str]]:
    """The bundle's files by path: content, media type and entity tag."""
    found: dict[str, tuple[bytes, str, str]] = {}

    def read(folder: Traversable, above: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                read(entry, f"{above}{entry.name}/")
            elif media := _TYPES.get(entry.name.rpartition(".")[2]):
                content = entry.read_bytes()
                found[above + entry.name] = content, media, f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    read(_BUNDLE, "")
    return found
