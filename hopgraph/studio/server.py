"""The process of `hopgraph studio`: LangGraph's local server, bound to 127.0.0.1.

It starts with the server's packages first on the path, in its state folder as working directory.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hopgraph.loop import collect_rarely
from hopgraph.methods import METHODS, READERS
from hopgraph.signals import Stopped
from hopgraph.studio.names import names, served_id
from hopgraph.studio.packages import unmet
from hopgraph.studio.stopping import CLOSING, stop_cleanly

if TYPE_CHECKING:
    from langgraph_sdk.client import SyncLangGraphClient

HOST = "127.0.0.1"
STUDIO = "https://smith.langchain.com"
"""URL of Studio's hosted page, which connects to the server from the user's browser."""
STUDIO_ORIGINS = (STUDIO, STUDIO.replace("//", "//eu."))
"""Origins of hosted pages that may call the server."""
PLAN = "plan.json"
"""Name of the plan file in the state folder."""
_FOREIGN = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "LSD_")
_STARTING = 120.0
"""Start time-out in seconds."""


@dataclass(frozen=True)
class Plan:
    """Start parameters of the server."""

    port: int
    jobs: int
    """Maximum concurrent runs."""
    index: str | None = None
    """Index of the assistants."""
    opened: dict[str, Any] | None = None
    """The thread whose URL is printed: `id`, `method` and `context`."""
    threads: list[tuple[str, str, str]] = field(default_factory=list)
    """Threads to list: id, method, question."""
    more: int = 0
    """Number of further threads."""

    def dump(self) -> str:
        """Serialize for `PLAN` in the state folder."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls) -> Plan:
        """The plan in the working directory."""
        return cls(**json.loads(Path(PLAN).read_text("utf-8")))


def graphs() -> dict[str, dict[str, str]]:
    """Every method and reader, in the format of langgraph.json."""
    return {
        name: {"path": f"hopgraph.studio.graphs:{name}", "description": about}
        for name, about in (METHODS | READERS).items()
    }


def environment(given: dict[str, str]) -> dict[str, str]:
    """Environment variables of the process: no telemetry, no tracing, and CORS for Studio's page only."""
    kept = {name: value for name, value in given.items() if not name.startswith(_FOREIGN)}
    return kept | {
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_STRICT_MSGPACK": "true",
        "LANGSMITH_TRACING": "false",
        "LOG_LEVEL": given.get("LOG_LEVEL", "ERROR"),
        "CORS_ALLOW_ORIGINS": ",".join(STUDIO_ORIGINS),
    }


def main() -> int:
    """Serve until a signal arrives. Returns the exit code."""
    stop_cleanly()
    collect_rarely()
    plan = Plan.read()
    names()  # read before the server's loop runs
    problems = unmet()
    if problems:
        typer.echo(f"hopgraph: the local server's requirements are not met: {'; '.join(problems)}", err=True)
        typer.echo("  install the versions of requirements.lock, or hopgraph[studio] in its own environment", err=True)
        return 2
    from langgraph_api.cli import run_server

    logging.getLogger("langgraph_api.cli").setLevel(logging.WARNING)
    threading.Thread(target=_welcome, args=(plan,), daemon=True).start()
    try:
        run_server(
            HOST,
            plan.port,
            graphs=graphs(),
            n_jobs_per_worker=plan.jobs,
            # Its tools are every graph and assistant, with the fields of oracles: `hopgraph mcp` has a choice of tools.
            http={"disable_mcp": True, "disable_a2a": True, "app": "hopgraph.studio.app:app"},
            checkpointer={"path": "hopgraph.studio.stopping.checkpoints"},
            timeout_graceful_shutdown=CLOSING,
        )
    except Stopped as stop:
        typer.echo(f"hopgraph: stopped; {stop.how_to_resume}" if stop.how_to_resume else "hopgraph: stopped", err=True)
        return stop.exit_code
    return 0


def _welcome(plan: Plan) -> None:
    """When the server is up, register threads and assistants, and print its URLs."""
    deadline = time.monotonic() + _STARTING
    while not _is_up(plan.port):
        if time.monotonic() > deadline:
            typer.echo(f"hopgraph: the server has not started in {_STARTING:.0f} seconds", err=True)
            os._exit(1)
        time.sleep(0.1)
    from langgraph_sdk import get_sync_client

    address = f"http://{HOST}:{plan.port}"
    try:
        client = get_sync_client(url=address, api_key=None)
        typer.echo(_introduce(client, plan, address))
    except Exception as error:
        typer.echo(f"hopgraph: the server is up, but did not take its threads and assistants: {error}", err=True)


def _is_up(port: int) -> bool:
    """Whether the server responds. Without TLS: while it starts, truststore replaces `ssl.SSLContext`,

    and a context created at that moment recurses endlessly.
    """
    connection = HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/ok")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _introduce(client: SyncLangGraphClient, plan: Plan, address: str) -> str:
    from hopgraph.studio.assistants import create_assistants

    made = create_assistants(client, plan.index)
    for thread, method, question in plan.threads:
        about = {"question": question, "thread": thread}
        client.threads.create(thread_id=names().add(thread), graph_id=method, metadata=about, if_exists="do_nothing")
    on = f" on the index {plan.index}" if plan.index else ""
    lines = [
        f"page        {address}/studio/  (on this machine, without an account)",
        f"Studio      {STUDIO}/studio/?baseUrl={address}",
        f"API         {address}  (documentation: {address}/docs)",
        f"OpenAI API  {address}/v1  (MCP: {address}/mcp)",
        f"graphs      {', '.join(graphs())}",
        f"assistants  {made}: the paper's settings, and one for each ablation{on}",
    ]
    if plan.threads:
        more = f"; the page has the {plan.more:,} older ones, too" if plan.more else ""
        lines.append(f"threads     the newest {len(plan.threads):,}{more}")
    if plan.opened is not None:
        lines.append(f"thread      {address}/studio/?thread={plan.opened['id']}")
        key = served_id(plan.opened["id"])
        lines.append(f"            {STUDIO}/studio/thread/{key}?baseUrl={address}")
        if plan.opened["context"]:
            name = f"thread {plan.opened['id'][:8]}"
            client.assistants.create(
                plan.opened["method"],
                assistant_id=key,
                name=name,
                description="The settings that this thread was asked with",
                context=plan.opened["context"],
                if_exists="do_nothing",
            )
            lines.append(
                f"            it was asked with the settings of the assistant `{name}`: choose it to keep them"
            )
    return "\n".join(
        [
            *lines,
            "",
            "Studio's hosted page wants an account of LangSmith; graphs, questions and documents stay on this machine.",
            "ctrl-C stops it.",
        ]
    )
