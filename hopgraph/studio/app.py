"""The application that LangGraph's local server mounts: the page, its lookups, the API of `hopgraph serve`, and the
guard of all requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from hopgraph.server.app import create_app
from hopgraph.server.options import Options
from hopgraph.studio import lookups
from hopgraph.studio.guard import Guard
from hopgraph.studio.page import PATH, bundle, page, to_page
from hopgraph.studio.server import STUDIO_ORIGINS, Plan

_API = f"{PATH}/api"


def _lookup(path: str, function: object, *methods: str) -> Route:
    return Route(_API + path, lookups.answering(function), methods=[*methods] or ["GET"])  # type: ignore[arg-type]


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncIterator[None]:
    async with served.router.lifespan_context(served):
        yield


served = create_app(Options(index=Plan.read().index, in_thread=True))
"""The methods behind the OpenAI API, at /v1, and as MCP's tools, at /mcp."""
bundle()  # read before the server's loop runs
app = Starlette(
    routes=[
        _lookup("/indexes", lookups.indexes),
        _lookup("/settings", lookups.settings, "POST"),
        _lookup("/passages", lookups.passages, "POST"),
        _lookup("/threads", lookups.threads),
        _lookup("/questions", lookups.questions, "POST"),
        _lookup("/threads/{thread}/served", lookups.served, "POST"),
        _lookup("/threads/{thread}/history", lookups.history),
        _lookup("/threads/{thread}/record", lookups.record),
        Route("/v1/{path:path}", served),
        Route("/mcp", served),
        Route(PATH, to_page),
        Route(f"{PATH}/", page),
        Route(PATH + "/{file:path}", page),
    ],
    lifespan=_lifespan,
    middleware=[Middleware(Guard, origins=STUDIO_ORIGINS, linked=f"{PATH}/")],
)
