"""The application: routes, middleware and lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from hopgraph.server.chat import chat
from hopgraph.server.errors import THREAD, ApiError
from hopgraph.server.guard import Guard
from hopgraph.server.mcp import create_mcp
from hopgraph.server.metrics import CONTENT_TYPE
from hopgraph.server.models import find_model, served_models
from hopgraph.server.options import Options
from hopgraph.server.service import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def create_app(options: Options) -> Starlette:
    """The application. While it lives, its `state.service` is the `Service`.

    Args:
        options: Its options.
    """

    tools = create_mcp(lambda: app.state.service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(served_models, options.index)  # imports every method before the first request
        async with AsyncExitStack() as stack:
            app.state.service = await stack.enter_async_context(Service.opened(options))
            await stack.enter_async_context(tools.session_manager.run())
            yield

    middleware = [Middleware(Guard, options=options), Middleware(Refusals)]
    if options.origins:
        exposed = [THREAD, "retry-after"]
        allowed = ["authorization", "content-type", THREAD]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=options.origins,
            allow_methods=["GET", "POST"],
            allow_headers=allowed,
            expose_headers=exposed,
        )
        middleware.insert(0, cors)
    routes: list[BaseRoute] = [
        Route("/v1/models", _models),
        Route("/v1/models/{model:path}", _model),
        Route("/v1/chat/completions", Chat(), methods=["POST"]),
        Route("/health", _health),
        Route("/metrics", _metrics),
    ]
    # Without sessions, so that any replica can answer; hosts and origins are the guard's.
    off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    routes += tools.streamable_http_app(stateless_http=True, transport_security=off).routes
    handlers: Any = {404: _not_found, 405: _not_found, Exception: _internal}
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan, exception_handlers=handlers)
    return app


class Chat:
    """`chat` as an object, which Starlette calls with `receive` and `send`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a chat."""
        await chat(scope, receive, send)


class Refusals:
    """ASGI middleware that sends and counts errors.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            await self._app(scope, receive, send)
        except ApiError as error:
            scope["app"].state.service.metrics.refused(str(error.body["error"]["code"]))
            await error.response()(scope, receive, send)


async def _models(request: Request) -> Response:
    def rows() -> list[dict[str, Any]]:
        return [row.row() for row in served_models(request.app.state.service.options.index).values()]

    return JSONResponse({"object": "list", "data": await asyncio.to_thread(rows)})


async def _model(request: Request) -> Response:
    def row() -> dict[str, Any]:
        return find_model(request.path_params["model"], request.app.state.service.options.index).row()

    return JSONResponse(await asyncio.to_thread(row))


async def _health(request: Request) -> Response:
    """200 while the server takes requests, 503 while it is being stopped."""
    service: Service = request.app.state.service
    if service.stopping:
        return JSONResponse({"status": "stopping"}, 503)
    return JSONResponse({"status": "ok"})


async def _metrics(request: Request) -> Response:
    return Response(request.app.state.service.metrics.text(), media_type=CONTENT_TYPE)


async def _not_found(request: Request, error: Any) -> Response:
    return ApiError(
        error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}", code="not_found"
    ).response()


async def _internal(request: Request, error: Exception) -> Response:
    return ApiError(500, "internal error; the server's log has it", type="server_error", code="internal").response()
