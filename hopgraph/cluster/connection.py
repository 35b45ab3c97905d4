"""Connects to a Ray cluster, and sets up the processes that work there."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from inference.errors import InputError
from inference.settings import Settings, get_settings

_CONNECT_TIMEOUT = 5.0
"""Seconds that the cluster's head may take to accept a connection."""
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = b"\x04"
"""Type of the frame that a gRPC server, such as Ray's, sends first."""
_VERSIONS = ("versions", "version mismatch", "mismatch")


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to."""

    address: str
    cpus: int
    nodes: int
    dashboard: str
    """URL of Ray's dashboard; "" without one."""

    def __str__(self) -> str:
        """One line for the user."""
        where = "on this machine" if self.address == "local" else f"at {self.address}"
        text = f"Ray {where}: {self.nodes} node{'s' if self.nodes != 1 else ''}, {self.cpus} CPUs"
        return f"{text}, dashboard http://{self.dashboard}" if self.dashboard else text


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a cluster for the duration of the context; its end stops all of this process's tasks.

    Args:
        address: HOST:PORT of the cluster's head; `auto`: the one that this machine belongs to (or RAY_ADDRESS);
            `local`: start one on this machine, which is reached from this machine only.

    Raises:
        InputError: There is no cluster, it has other versions or no CPUs, or Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    found = _address(address)
    if found == "local":
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray's servers listen on 127.0.0.1 alone
    try:
        import ray
    except ImportError:
        raise InputError("--ray: Ray is not installed", hint="pip install 'hopgraph[cluster]'") from None
    with redirect_stdout(sys.stderr):  # Ray prints tasks that it runs again, where a command's JSON goes
        try:
            with _preserved_sigterm_handler():
                context = ray.init(
                    address=found,
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({"include_dashboard": False} if found == "local" else {}),
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise _refused(address, error) from None
        try:
            cpus = int(ray.cluster_resources().get("CPU", 0))
            if not cpus:
                raise InputError(f"--ray {address}: the cluster has no CPUs", hint="start its nodes with --num-cpus")
            yield Cluster(address, cpus, len(living()), context.dashboard_url or "")
        finally:
            ray.shutdown()


@contextmanager
def _preserved_sigterm_handler() -> Iterator[None]:
    """Ray installs a handler of its own, which ends the process before a command can say how to resume it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def living() -> dict[str, str]:
    """Names of the nodes that are alive, by id."""
    import ray

    nodes = (node for node in ray.nodes() if node["Alive"])
    return {node["NodeID"]: f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})" for node in nodes}


class NodeWatch:
    """Notices nodes that die."""

    def __init__(self) -> None:
        self._alive = living()

    def died(self) -> list[str]:
        """Addresses of the nodes that have died since the last call, each with the start of its id."""
        before, self._alive = self._alive, living()
        return [name for node, name in before.items() if node not in self._alive]


def _address(address: str) -> str:
    """What `ray.init` gets. A host that does not answer is refused here: Ray would try for minutes."""
    found = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if found in ("auto", "local"):
        return found
    host, _, port = found.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        raise InputError(f"--ray {found}: must be HOST:PORT, auto or local", hint="such as 10.0.0.1:6379")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT) as connection:
            connection.sendall(_HTTP2_PREFACE)
            if connection.recv(9)[3:4] != _HTTP2_SETTINGS:
                raise ConnectionError("something else does")
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--ray {found}: no Ray cluster answers there ({error})",
            hint="`ray status` on its head tells whether it runs; the port is usually 6379",
        ) from None
    return found


def _refused(address: str, error: Exception) -> InputError:
    text = " ".join(str(error).split())
    if any(word in text.lower() for word in _VERSIONS):
        return InputError(
            f"--ray {address}: {text[:400]}", hint="all nodes and this machine need the same versions of Python and Ray"
        )
    if isinstance(error, ConnectionError):
        return InputError(
            f"--ray {address}: no Ray cluster found",
            hint="start one with `ray start --head`, give its HOST:PORT, or use --ray local",
        )
    return InputError(f"--ray {address}: {text[:400]}")


def worker_count(cluster: Cluster, wanted: int | None) -> int:
    """Number of workers: as many as wanted, or one per CPU; at most one for each call of a fixed limit."""
    limit = get_settings().llm_concurrency
    count = wanted or cluster.cpus
    return min(count, limit) if isinstance(limit, int) else count


def variables_of_workers(at_once: int) -> dict[str, str]:
    """The HOPGRAPH_* variables of a worker: this process's, with absolute paths.

    They go to workers as an argument, never as Ray's `runtime_env`, which its dashboard shows: they may have keys.

    Args:
        at_once: Workers at the same time, which share a fixed limit of calls in flight.
    """
    settings = get_settings()
    found = {name.upper(): value for name, value in os.environ.items() if name.upper().startswith("HOPGRAPH_")}
    for field in Settings.model_fields:
        if isinstance(value := getattr(settings, field), Path):
            found[f"HOPGRAPH_{field.upper()}"] = str(value.resolve())
    if Path(settings.embedded_model).is_file():
        found["HOPGRAPH_EMBEDDED_MODEL"] = str(Path(settings.embedded_model).resolve())
    found["HOPGRAPH_CACHE"] = settings.cache
    if isinstance(settings.llm_concurrency, int):
        found["HOPGRAPH_LLM_CONCURRENCY"] = str(max(1, settings.llm_concurrency // max(1, at_once)))
    return found


def set_up(variables: Mapping[str, str]) -> None:
    """Give this process, a worker, the variables of the one that started it."""
    for name in [name for name in os.environ if name.upper().startswith("HOPGRAPH_")]:
        del os.environ[name]
    os.environ.update(variables)
    get_settings.cache_clear()
