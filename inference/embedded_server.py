"""The embedded server's process: llama.cpp's OpenAI-compatible server on loopback, which exits after its last user.

Its folder holds three locks, which the kernel releases however a process ends: `starting` is held by a client that
looks for the server or starts it, `serving` by the server as long as it runs, and `users` is shared by all clients:
when the server can lock it exclusively, no client is left.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import socket
import sys
import time
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Any

from inference.locks import lock, unlock

STATE = "server.json"
"""State file, written once the server listens: url, pid, model, file, context, parallel."""
ALREADY_SERVING = 75
"""Exit code of a second server for the same folder."""
_POLL = 0.25


def start_llama(
    file: Path, name: str, *, port: int, parallel: int, context: int, lora: Path | None = None
) -> tuple[Any, str]:
    """Load a model and serve it on 127.0.0.1.

    Args:
        file: The GGUF file.
        name: What the server calls the model.
        port: TCP port, 0 for any that is free.
        parallel: Concurrent requests, each in a slot with its own context.
        context: Tokens per slot, capped at the model's training context.
        lora: GGUF file of a LoRA adapter, applied to all requests.

    Returns:
        The server and its address, such as http://127.0.0.1:8080. Keep a reference to the server; only the end of the
        process stops it, because its destructor may wait for requests forever.

    Raises:
        RuntimeError: It could not start; llama.cpp has written the reason to stderr.
        ImportError: xllamacpp, or the libgomp it needs, is missing.
    """
    # A thread that waits for another, hundreds of times per token, must spin for some microseconds and then sleep. GNU
    # OpenMP's default is to spin for milliseconds: beside another busy process each wait takes a time slice. Without
    # spinning each wait has the kernel wake a thread. This limit is the one that GNU OpenMP itself uses with more
    # threads than cores. Tokens/s with it and without spinning (2 cores, 2026-11-29): 103 and 20, beside one busy
    # process 28 and 42, beside two 44 and 21.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = parallel
    params.n_ctx = parallel * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = usable_cores()
    if lora is not None:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(lora), 1.0)]
    params.cache_ram_mib = 256  # cache of evicted prompts; llama.cpp's default is 8 GB
    params.cors_origins = "http://127.0.0.1"  # no requests from web pages
    params.cors_credentials = False
    params.ui = False
    params.endpoint_slots = False  # it exposes prompts
    params.verbosity = 2  # warnings and errors
    server = xllamacpp.Server(params)
    return server, server.listening_address


@lru_cache(maxsize=1)
def usable_cores() -> int:
    """Cores this process may use, by affinity and by a container's quota; 16 at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # no control groups, or no quota
    return min(cores, 16)


def main() -> int:
    """Serve until no client is left; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the server's folder")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, default=0, help="preferred port")
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--lora", type=Path)
    parser.add_argument("--idle", type=float, required=True, help="seconds to stay without a user")
    options = parser.parse_args()
    folder: Path = options.folder

    serving = (folder / "serving").open("ab")
    if not _lock_soon(serving.fileno()):
        return ALREADY_SERVING
    state = folder / STATE
    state.unlink(missing_ok=True)
    serving.truncate(0)
    serving.write(str(os.getpid()).encode())
    serving.flush()

    port = options.port if options.port and _is_free(options.port) else 0
    try:
        _server, address = start_llama(
            options.file,
            options.name,
            port=port,
            parallel=options.parallel,
            context=options.context,
            lora=options.lora,
        )
    except (RuntimeError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    facts = {"url": f"{address}/v1", "pid": os.getpid(), "model": options.name, "file": str(options.file)}
    _write(state, {**facts, **_slots(address)})

    stopped_by = 0

    def on_signal(number: int, _frame: object) -> None:
        nonlocal stopped_by
        stopped_by = number

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    users = _Users(folder / "users", options.idle)
    while not stopped_by and users.present():
        time.sleep(_POLL)
    state.unlink(missing_ok=True)
    sys.stderr.write(f"ended: {f'signal {stopped_by}' if stopped_by else 'nobody uses it'}\n")
    sys.stderr.flush()
    os._exit(0)  # llama.cpp's destructor can hang; the kernel releases the port and the locks


class _Users:
    """Whether any process uses the server, or did within the last `idle` seconds."""

    def __init__(self, path: Path, idle: float) -> None:
        self.path = path
        self.idle = idle
        self.handle = path.open("ab")
        self.last_seen = time.monotonic()

    def present(self) -> bool:
        """False once no client is left; the lock is then kept, so that no client attaches to an exiting server."""
        if not lock(self.handle):
            if self._in_place():  # clients of a folder that was deleted can't be told from clients of a new one
                self.last_seen = time.monotonic()
                return True
            return time.monotonic() - self.last_seen < self.idle
        if time.monotonic() - self.last_seen >= self.idle:
            return False
        unlock(self.handle)
        return True

    def _in_place(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self.handle.fileno()))
        except OSError:
            return False


def _lock_soon(descriptor: int) -> bool:
    """Lock until this process ends; retries, because clients that probe the lock hold it briefly."""
    for _ in range(40):
        if lock(descriptor):
            return True
        time.sleep(0.05)
    return False


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _slots(address: str) -> dict[str, int]:
    """Tokens of context per slot and number of slots, as the server reports them."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{address}/props", timeout=60) as response:
        props = json.load(response)
    return {"context": props["default_generation_settings"]["n_ctx"], "parallel": props["total_slots"]}


def _write(path: Path, facts: dict[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(facts), "utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main())
