"""Registry of the endpoints open in each event loop, and of their concurrency limits."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from weakref import WeakValueDictionary

from inference.adaptive import OPENING
from inference.base_url import split_urls
from inference.endpoint import Endpoint
from inference.endpoint_list import EndpointList
from inference.limiter import Limiter
from inference.settings import Role, Settings, get_settings

_endpoints: dict[asyncio.AbstractEventLoop, dict[tuple[str, str, str, str], Endpoint]] = {}
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
    server = settings.server(role)
    url = server.url
    if url is not None:
        model = model or server.model
    if server.own:  # another server's context and key are its own
        settings = settings.model_copy(update={"llm_api_key": server.key, "llm_context": None})
    urls = [""] if url is None else split_urls(url) or [url]
    return _open(urls, model or "", settings, f"HOPGRAPH_{server.role.upper()}", role, embedded)


def _open(
    urls: list[str], model: str, settings: Settings, prefix: str, role: Role, embedded: str | None = None
) -> Endpoint:
    """The endpoint of a server, or of a list of servers, each with the limiter that all its models share."""
    for loop in [loop for loop in _endpoints if loop.is_closed()]:
        del _endpoints[loop]
    known = _endpoints.setdefault(asyncio.get_running_loop(), {})
    place = (",".join(urls), model, prefix, "" if urls[0] else role)  # a role may have an embedded server of its own
    if place in known:
        return known[place]
    if len(urls) > 1:
        servers = [_open([url], model, settings, prefix, role) for url in urls]
        known[place] = EndpointList(servers, model, settings, prefix)
        return known[place]
    (url,) = urls
    locate = partial(_embedded_url, role)
    endpoint = Endpoint(url or embedded or locate(), model, settings, None if url else locate, prefix)
    endpoint.limiter = _limiters.setdefault((url, settings.llm_concurrency), endpoint.limiter)
    known[place] = endpoint
    return endpoint


def limiters() -> list[Limiter]:
    """The limiters of this event loop's servers, without those that are left out."""
    known = _endpoints.get(asyncio.get_running_loop(), {})
    found = [limiter for endpoint in known.values() if not endpoint.left_out for limiter in endpoint.limiters]
    return list({id(limiter): limiter for limiter in found}.values())


def calls_at_once() -> int:
    """Current concurrency limit of the endpoint that has the highest; a list of servers has the sum of theirs."""
    concurrency = get_settings().llm_concurrency
    known = _endpoints.get(asyncio.get_running_loop(), {})
    limits = [sum(limiter.limit for limiter in endpoint.limiters) for endpoint in known.values()]
    return max(limits, default=OPENING if concurrency == "auto" else concurrency)


def _embedded_url(role: Role) -> str:
    from inference.embedded import ensure_server

    return ensure_server(get_settings().embedded_model, role).url
