"""A real server on loopback, a scripted model behind it, and OpenAI's client in front."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from openai import AsyncOpenAI

from hopgraph.cli.serving import bound
from hopgraph.server.app import create_app
from hopgraph.server.options import Options
from hopgraph.server.service import Service
from tests.small import build_small

KEY = "unused"


@dataclass
class Served:
    """A server that runs."""

    url: str
    service: Service

    def openai(self, **options: Any) -> AsyncOpenAI:
        """OpenAI's client, which repeats nothing."""
        return AsyncOpenAI(**{"base_url": f"{self.url}/v1", "api_key": KEY, "max_retries": 0} | options)

    def http(self, **options: Any) -> httpx.AsyncClient:
        """A plain client."""
        return httpx.AsyncClient(base_url=self.url, timeout=20, **options)

    async def ask(self, question: Any = "Where?", model: str = "prism", **options: Any) -> Any:
        """One chat of one message; with `stream` the stream, which keeps its client open."""
        messages = [{"role": "user", "content": question}]
        return await self.openai().chat.completions.create(model=model, messages=messages, **options)


@asynccontextmanager
async def serving(options: Options) -> AsyncIterator[Served]:
    """Serve on any free port."""
    app = create_app(options)
    with bound("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            assert not task.done(), task
            await asyncio.sleep(0.01)
        try:
            yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.service)
        finally:
            server.should_exit = True
            await task


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def start(home) -> AsyncIterator[Any]:
    """Starts servers; keyword arguments are `Options`."""
    async with AsyncExitStack() as stack:

        async def begin(**options: Any) -> Served:
            return await stack.enter_async_context(serving(Options(**options)))

        yield begin


@pytest.fixture
async def server(home, start) -> Served:
    """A server with the index `small`."""
    build_small()
    return await start()
