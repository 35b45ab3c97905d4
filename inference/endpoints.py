"""Registry of the endpoints open in each event loop, and of their concurrency limits."""

from __future__ import annotations

import asyncio
import os
from weakref import WeakValueDictionary

from inference.adaptive import OPENING
from inference.endpoint import Endpoint
from inference.limiter import Limiter
from inference.settings import Role, get_settings

_endpoints: dict[asyncio.AbstractEventLoop, dict[tuple[str, str, str], Endpoint]] = {}
_limiters: WeakValueDictionary[tuple[str, int | str], Limiter] = WeakValueDictionary()
"""One limiter per server, shared by all event loops (`graph.invoke` runs its own)."""
# A forked process begins anew: its parent's calls are not in flight here.
os.register_at_fork(after_in_child=_limiters.clear)


def get_endpoint(model: str | None = None, role: Role = "llm", *, embedded: str | None = None) -> Endpoint:
    """The endpoint of a role's server, one instance per event loop and model.

    All models of a server share its concurrency limit, in all event loops of this process. Call it with a running loop.
    Without a URL in HOPGRAPH_LLM_URL or in the role's own variable the embedded model's server is used; unless its URL
    is given, it is located or started here, which blocks the loop: nodes use `nodes.kit.model.open_endpoint`.

    Args:
        model: Model name; None for the one that the settings name.
        role: What it is asked for.
        embedded: URL of the embedded model's server, if it was located already.
    """
    settings = get_settings()
    url, named, key, own = settings.server(role)
    if url is not None:
        model = model or named
    prefix = f"HOPGRAPH_{role if own else 'llm'}".upper()
    place = ("" if url is None else url.rstrip("/"), model or "", prefix)
    for loop in [loop for loop in _endpoints if loop.is_closed()]:
        del _endpoints[loop]
    known = _endpoints.setdefault(asyncio.get_running_loop(), {})
    if place not in known:
        locate = _embedded_url if url is None else None
        if own:  # another server's context and key are its own
            settings = settings.model_copy(update={"llm_api_key": key, "llm_context": None})
        endpoint = Endpoint(place[0] or embedded or _embedded_url(), place[1], settings, locate, prefix)
        endpoint.limiter = _limiters.setdefault((place[0], settings.llm_concurrency), endpoint.limiter)
        known[place] = endpoint
    return known[place]


def limiters() -> list[Limiter]:
    """The limiters of this event loop's endpoints."""
    known = _endpoints.get(asyncio.get_running_loop(), {})
    return list({id(endpoint.limiter): endpoint.limiter for endpoint in known.values()}.values())


def calls_at_once() -> int:
    """Current concurrency limit of the endpoint that has the highest."""
    concurrency = get_settings().llm_concurrency
    if concurrency == "auto":
        return max((limiter.limit for limiter in limiters()), default=OPENING)
    return concurrency


def _embedded_url() -> str:
    from inference.embedded import ensure_server

    return ensure_server(get_settings().embedded_model).url
