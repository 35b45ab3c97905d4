"""What a base URL was probably meant to be: it ends in /v1, and people leave that out or paste a longer address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

__all__ = ["meant"]


async def meant(url: str, get: Callable[[str], Awaitable[Any]]) -> str | None:
    """The base URL under which a server lists its models, where `url` is not it; None if none does.

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
