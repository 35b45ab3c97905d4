"""Base URLs of OpenAI-compatible servers: validation, redaction, and suggestions for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit


def is_url(url: str) -> bool:
    """Whether it is an http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def split_urls(urls: str) -> list[str]:
    """The URLs of a list separated by commas, without closing slashes, each once."""
    return list(dict.fromkeys(url for part in urls.split(",") if (url := part.strip().rstrip("/"))))


def shown(url: str) -> str:
    """The URL for messages, with user name and password redacted."""
    return re.sub(r"[^/@]*@", "***@", url)


def server_root(url: str) -> str:
    """The URL without /v1, the root of endpoints outside the OpenAI API."""
    return url.removesuffix("/").removesuffix("/v1")


async def suggested_url(url: str, get: Callable[[str], Awaitable[Any]]) -> str | None:
    """Another base URL derived from `url` under which a server lists its models; None if there is none.

    Corrects a missing /v1 and a URL of an endpoint below it.

    Args:
        url: The configured URL.
        get: Returns the JSON at a URL, or raises.
    """
    for candidate in _candidates(url):
        answer = None
        with suppress(Exception):  # any failure rules this candidate out
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
