"""Load of a vLLM server, polled from its metrics for the adaptive limit."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from inference.http import Refusal
from inference.limiter import Limiter

_PAUSE = 0.5
"""Seconds between two polls, once the limit has settled."""


class LoadWatch:
    """Polls the metrics in the background; the limiter calls it every `TICK` seconds while there are calls.

    Args:
        limiter: Receives the load.
        metrics: Returns the text of /metrics.
    """

    def __init__(self, limiter: Limiter, metrics: Callable[[], Awaitable[str]]) -> None:
        self._limiter = limiter
        self._metrics = metrics
        self._request: asyncio.Task[None] | None = None
        self._requested = 0.0
        self._has_metrics = True

    def __call__(self) -> None:
        """Start a request, unless one is running or the server lacks these metrics."""
        adaptive = self._limiter.adaptive
        if adaptive is None or not self._has_metrics or (self._request is not None and not self._request.done()):
            return
        now = time.monotonic()
        if now - self._requested >= (_PAUSE if adaptive.settled else 0):
            self._requested = now
            self._request = asyncio.create_task(self._update())

    async def _update(self) -> None:
        import aiohttp

        try:
            text = await self._metrics()
        except (Refusal, OSError, aiohttp.ClientError):
            text = ""
        self._has_metrics = "vllm:num_requests_running" in text
        if self._has_metrics:
            self._limiter.set_load(_gauge(text, "running"), _gauge(text, "waiting"))


def _gauge(text: str, name: str) -> float:
    """A gauge of vLLM's requests, summed over its engines."""
    return sum(map(float, re.findall(rf"^vllm:num_requests_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)))
