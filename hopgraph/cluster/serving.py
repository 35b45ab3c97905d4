"""The application of `hopgraph serve` as a Ray Serve deployment: `serve run hopgraph.cluster.serving:app index=wiki`.

Ray Serve imports `app` and calls it with the arguments of `serve run`, or those of a Serve config file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hopgraph.cluster.connection import set_up, variables_of_workers
from hopgraph.loop import collect_rarely
from hopgraph.server.app import create_app
from hopgraph.server.guard import check_origin
from hopgraph.server.options import History, Options
from inference.errors import HopgraphError, InputError
from inference.settings import get_settings
from stores.checkpoints import is_postgres
from stores.index import open_index

if TYPE_CHECKING:
    from starlette.applications import Starlette

GRACE = 120.0
"""Seconds that the runs of a replica may take to end when Serve stops it; Serve's own default is 20."""
_SPARE = 64
"""Requests of a replica beyond its runs and its queue: it refuses these itself, and answers /health meanwhile."""


class Arguments(BaseModel):
    """Arguments of the deployment; those of `hopgraph serve` with the same meaning."""

    model_config = ConfigDict(extra="forbid")

    index: str | None = None
    """Index of requests whose model names none. Default: the only index."""
    replicas: int = Field(default=2, ge=1)
    """Number of replicas, among which a fixed HOPGRAPH_LLM_CONCURRENCY is divided."""
    runs: int = Field(default=256, ge=1, le=4096)
    """Maximum number of concurrent runs of a replica."""
    queue: int = Field(default=256, ge=0)
    """Maximum number of waiting requests of a replica."""
    history: History = "rewrite"
    """Earlier turns of a chat: rewrite or off."""
    allow_origin: list[str] = []
    """Web pages that may call it."""


class Refused(click.ClickException):
    """An error of the user, which `serve run` prints without a traceback.

    Args:
        error: What is wrong.
    """

    exit_code = InputError.exit_code

    def __init__(self, error: HopgraphError) -> None:
        super().__init__(f"hopgraph: {error}")


def app(arguments: dict[str, Any]) -> Any:
    """The Serve application.

    Args:
        arguments: See `Arguments`.

    Raises:
        Refused: Arguments or settings are wrong, or Ray Serve is not installed.
    """
    try:
        return _application(_read(arguments))
    except HopgraphError as error:
        raise Refused(error) from None


def _application(given: Arguments) -> Any:
    try:
        from ray import serve
    except ImportError:
        raise InputError("Ray Serve is not installed", hint="pip install 'hopgraph[cluster-serve]'") from None
    settings = get_settings()
    # Serve does not tell a replica which addresses its proxies listen on; a config file's default is all of them.
    if settings.api_key is None:
        raise InputError(
            "HOPGRAPH_API_KEY is not set: other machines could use the deployment without a key",
            hint="set it to a secret that clients send",
        )
    if not is_postgres(settings.checkpoints or ""):
        raise InputError(
            "HOPGRAPH_CHECKPOINTS: replicas need checkpoints that all of them reach", hint="give a postgresql:// URL"
        )
    for origin in given.allow_origin:
        check_origin(origin)
    if given.index is not None:
        open_index(given.index)
    options = Options(
        index=given.index,
        history=given.history,
        runs=given.runs,
        queue=given.queue,
        key=settings.api_key.get_secret_value(),
        origins=tuple(given.allow_origin),
    )
    deployment = serve.deployment(
        serve.ingress()(Hopgraph),
        name="Hopgraph",
        num_replicas=given.replicas,
        max_ongoing_requests=given.runs + given.queue + _SPARE,
        graceful_shutdown_timeout_s=GRACE,
    )
    return deployment.bind(Setup(options, variables_of_workers(given.replicas)))


def _read(arguments: Mapping[str, Any]) -> Arguments:
    try:
        return Arguments.model_validate(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        known = ", ".join(Arguments.model_fields)
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", hint=f"arguments: {known}") from None


@dataclass(frozen=True)
class Setup:
    """What a replica needs. Serve shows no arguments of constructors, and this has no secret in its `repr`.

    Attributes:
        options: Of the application.
        variables: The HOPGRAPH_* variables of the process that built the deployment.
    """

    options: Options
    variables: dict[str, str]

    def __repr__(self) -> str:
        return "Setup(...)"


class Hopgraph:
    """A replica; Ray Serve calls its methods.

    Args:
        setup: What it needs.
    """

    def __init__(self, setup: Setup) -> None:
        set_up(setup.variables)
        collect_rarely()
        self._served = create_app(setup.options)

    def __serve_build_asgi_app__(self) -> Starlette:
        """The application. Serve runs its lifespan: startup before the first request, shutdown after the last one."""
        return self._served

    def check_health(self) -> None:
        """As /health; Serve replaces a replica for which this fails repeatedly.

        Raises:
            RuntimeError: It takes no requests.
        """
        if self._served.state.service.stopping:
            raise RuntimeError("the server is being stopped")
