"""Base URLs of OpenAI-compatible servers: checked, shown, and what was probably meant by a wrong one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

__all__ = ["is_url", "meant", "server_root", "shown"]


def is_url(url: str) -> bool:
    """Whether it is an http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def shown(url: str) -> str:
    """The URL as messages may show it: without name and password."""
    return re.sub(r"[^/@]*@", "***@", url)


def server_root(url: str) -> str:
    """The URL without /v1: where a server has its pages that are not of the OpenAI API."""
    return url.removesuffix("/").removesuffix("/v1")


async def meant(url: str, get: Callable[[str], Awaitable[Any]]) -> str | None:
    """The base URL under which a server lists its models, where `url` is not it; None if none does.

    A base URL ends in /v1; people leave that out, or paste a longer address.

    Args:
        url: What was given.
        get: Gives the JSON at a URL, or raises.
    """
    for candidate in _candidates(url):
        answer = None
        with suppress(Exception):  # whatever keeps it from answering, it is not the one
            answer = await get(f"{candidate}/models")
        if isinstance(answer, dict) and isinstance(answer.get("data"), list):
            return candidate
    return None


def _candidates(url: str) -> list[str]:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    before, version, after = path.partition("/v1")
    # http://host/v1/chat/completions, http://host/v1/models; http://host; http://host/index.html
    paths = [before + version] if version and after else [] if version else [f"{path}/v1", "/v1"]
    return [
        urlunsplit((parts.scheme, parts.netloc, each, "", "")) for each in dict.fromkeys(paths) if each != parts.path
    ]
