"""Runs an application with uvicorn until a signal arrives: SIGTERM lets model calls in flight end, ctrl-C does not."""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType
from typing import TYPE_CHECKING

import typer
import uvicorn

from hopgraph.cli.stopping import drained
from hopgraph.methods import METHODS
from hopgraph.signals import at_once
from inference.errors import InputError

if TYPE_CHECKING:
    from starlette.applications import Starlette

CLOSING = 2
"""Seconds for open requests to end, once their runs have been stopped."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        InputError: The address or the port is not available.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--port: {port} is not available on {host} ({reason})", hint="--port 0 chooses a free port"
        ) from None


async def serve_app(app: Starlette, listening: socket.socket) -> None:
    """Serve until a signal has come and the runs have stopped.

    Args:
        app: The application.
        listening: The socket that `bound` made.
    """
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSING,
        timeout_keep_alive=75,
    )
    server = _Server(config, app, f"serving {len(METHODS)} methods at {address}/v1 (ctrl-C stops it)")
    await server.serve(sockets=[listening])
    typer.echo("stopped", err=True)


class _Server(uvicorn.Server):
    """uvicorn, with our handling of signals."""

    def __init__(self, config: uvicorn.Config, app: Starlette, welcome: str) -> None:
        super().__init__(config)
        self._app = app
        self._welcome = welcome
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signalled = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        if self.started:
            typer.echo(self._welcome)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the runs, whose requests are answered, then the server."""
        await self._app.state.service.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the runs, then the server; a second signal ends the process at once."""
        if self._signalled:
            at_once(sig, frame)
        self._signalled = True
        if sig == signal.SIGTERM:
            self._loop.call_soon_threadsafe(self._drain)
        else:
            self._stop()

    def _drain(self) -> None:
        self._draining = self._loop.create_task(drained(self._stop))

    def _stop(self) -> None:
        self.should_exit = True
