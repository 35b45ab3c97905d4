"""Options of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

History = Literal["off", "rewrite"]


@dataclass(frozen=True)
class Options:
    """What `hopgraph serve` is started with."""

    index: str | None = None
    """Index of models that name none."""
    history: History = "rewrite"
    """What is done with the earlier turns of a chat, unless a request says otherwise; see `hopgraph.server.history`."""
    runs: int = 256
    """Maximum number of concurrent runs."""
    queue: int = 256
    """Maximum number of requests that wait for one of them."""
    key: str | None = None
    """API key that every request has to carry."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may call the server, besides its own."""
    body: int = 1_000_000
    """Largest request body, in bytes."""
    in_thread: bool = False
    """Keep the files of checkpoints out of the event loop's thread, for an application within LangGraph's server."""
