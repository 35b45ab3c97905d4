"""The embedded model's server, started once and shared by all processes with the same HOPGRAPH_HOME.

Each user holds a shared lock until it ends, even by SIGKILL; the server ends when nobody has held one for a while.
See `inference.embedded_server` for the locks.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from inference.embedded_model import adapter_of, served_model
from inference.embedded_server import ALREADY_SERVING, STATE
from inference.errors import EndpointError, InputError
from inference.locks import exclusive, is_locked, lock
from inference.settings import Role, Settings, get_settings

_START_TIMEOUT = 600.0
"""Seconds allowed for loading a model; a large one loads slowly from a slow disk."""
_SILENCE = 60.0
"""Seconds without an answer after which a server counts as hung and is replaced."""
_ANSWER_TIMEOUT = 5.0
"""Time-out of one health check, in seconds."""
_mutex = threading.Lock()
_attached: dict[tuple[Path, str, Path | None, int, int], Server] = {}
"""Servers this process uses, by home, model, adapter, parallel and context."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server that this process uses.

    Attributes:
        url: Base URL, such as http://127.0.0.1:40025/v1.
        model: Name it serves the model under.
        file: The GGUF file, or that of the model with its adapter merged.
        pid: Its process.
        context: Tokens of context that each request has.
        parallel: Requests it works on at the same time.
        log: Its log file.
    """

    url: str
    model: str
    file: Path
    pid: int
    context: int
    parallel: int
    log: Path
    _use: IO[bytes] = field(repr=False, compare=False)

    def release(self) -> None:
        """Stop using the server; it exits HOPGRAPH_EMBEDDED_IDLE seconds after its last user."""
        with _mutex:
            for key in [key for key, server in _attached.items() if server is self]:
                del _attached[key]
            self._use.close()


def ensure_server(model: str = "smollm2", role: Role = "llm") -> Server:
    """The running embedded server, or a new one; this process uses it until it exits.

    Blocks for about a second when a server must be started, and for the download when weights are missing. Further
    calls are cheap; they restart a server that has died, on its old port if that is free. Thread-safe.

    Args:
        model: `smollm2`, or the path of a GGUF file.
        role: What it is asked for: an adapter for this role alone has a server of its own.

    Raises:
        InputError: `model` is neither, or the adapter is no GGUF file.
        EndpointError: The server does not start (the message ends with its log), or weights can't be fetched.
    """
    settings = get_settings()
    lora = adapter_of(model, settings, role)
    key = (settings.home, model, lora, settings.embedded_parallel, settings.embedded_context)
    with _mutex:
        known = _attached.get(key)
        if known is not None:
            if _answers(known.url, known.model, known.file):
                return known
            _attached.pop(key)._use.close()
        name, file, lora = served_model(model, settings, role)
        folder = _folder(file, lora, settings)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            use = (folder / "users").open("ab")
        except OSError as error:
            raise InputError(
                f"the folder for the embedded server, {folder}, can't be used: {error.strerror or error}",
                hint="set HOPGRAPH_HOME to a folder that can be written, or HOPGRAPH_LLM_URL to an endpoint",
            ) from error
        try:
            lock(use, shared=True, wait=True)  # before anything else: it keeps a running server alive
            with exclusive(folder / "starting"):
                state = _find(folder, file) or _start(folder, name, file, lora, settings)
        except BaseException:
            use.close()
            raise
        _attached[key] = server = Server(
            url=state["url"],
            model=state["model"],
            file=file,
            pid=state["pid"],
            context=state["context"],
            parallel=state["parallel"],
            log=folder / "server.log",
            _use=use,
        )
        return server


def _folder(file: Path, lora: Path | None, settings: Settings) -> Path:
    """Folder of the server, by the files' current content, the settings and the machine."""
    loaded = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (file, lora) if path]
    facts = (loaded, settings.embedded_parallel, settings.embedded_context)
    digest = hashlib.sha256(repr((*facts, socket.gethostname())).encode()).hexdigest()
    return settings.home.resolve() / "run" / f"{file.stem[:40]}-{digest[:12]}"


def _find(folder: Path, file: Path) -> dict[str, Any] | None:
    """State of the running server, once it answers; None if there is none. A hung one is killed."""
    limit = time.monotonic() + _START_TIMEOUT
    silent_since: float | None = None
    while is_locked(folder / "serving"):
        state = _read_state(folder)
        if state and _answers(state["url"], state["model"], file):
            return state
        now = time.monotonic()
        if state:
            silent_since = silent_since or now
        if now > limit or (silent_since and now - silent_since > _SILENCE):
            _end(folder)
        time.sleep(0.1)
    return None


def _start(folder: Path, name: str, file: Path, lora: Path | None, settings: Settings) -> dict[str, Any]:
    log = folder / "server.log"
    if importlib.util.find_spec("xllamacpp") is None:
        raise EndpointError(
            "the embedded model needs the package xllamacpp, which is not installed",
            hint="install it, or set HOPGRAPH_LLM_URL to an endpoint",
        )
    old_port = str(_read_state(folder).get("url", "")).removesuffix("/v1").rpartition(":")[2]
    command = [
        *(sys.executable, "-P", "-m", "inference.embedded_server", str(folder)),
        *("--file", str(file), "--name", name, "--port", old_port or "0", "--idle", str(settings.embedded_idle)),
        *("--parallel", str(settings.embedded_parallel), "--context", str(settings.embedded_context)),
        *(("--lora", str(lora)) if lora else ()),
    ]
    code = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (code, os.environ.get("PYTHONPATH"))))
    if log.exists():
        log.replace(folder / "server.log.1")
    with log.open("wb") as sink:
        # A new session: ctrl-C in the starting terminal must not reach a shared server.
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True).start()  # reaps it, so that no zombie remains
    began = time.monotonic()
    patience = began + 5.0
    while process.returncode is None and time.monotonic() < began + _START_TIMEOUT:
        state = _read_state(folder)
        if state.get("pid") == process.pid and _answers(state["url"], name, file):
            return state
        if time.monotonic() > patience:
            sys.stderr.write(f"Loading {file.name} into the embedded server\n")
            patience = math.inf
        time.sleep(0.05)
    if process.returncode == ALREADY_SERVING:  # started by a client that was killed before it recorded the state
        found = _find(folder, file)
        if found is not None:
            return found
    if process.returncode is None:
        process.kill()
    tail = _tail(log)
    remedy = (
        "install libgomp (libgomp1 on Debian and Ubuntu)" if "libgomp" in tail else "check the model file and memory"
    )
    raise EndpointError(
        f"the embedded server for {file} did not start. Its log, {log}, ends with:\n{tail}",
        hint=f"{remedy}, or set HOPGRAPH_LLM_URL to an endpoint",
    )


def _read_state(folder: Path) -> dict[str, Any]:
    """The state file's content; empty if missing or unreadable."""
    try:
        state = json.loads((folder / STATE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    wanted = {"url": str, "model": str, "file": str, "pid": int, "context": int, "parallel": int}
    legible = isinstance(state, dict) and all(isinstance(state.get(key), kind) for key, kind in wanted.items())
    return state if legible else {}


def _answers(url: str, model: str, file: Path) -> bool:
    """Whether the server at the URL reports this file under this name."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=_ANSWER_TIMEOUT)
    try:
        connection.request("GET", "/props")
        props = json.loads(connection.getresponse().read())
        return bool(props["model_path"] == str(file) and props["model_alias"] == model)
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def _end(folder: Path) -> None:
    """Kill the server that holds the folder's lock but does not answer."""
    try:
        pid = int((folder / "serving").read_text("ascii"))
        command = Path(f"/proc/{pid}/cmdline")
        if not Path("/proc/self/cmdline").exists() or b"inference.embedded_server" in command.read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        pass  # it has exited meanwhile, or its pid was reused


def _tail(log: Path, lines: int = 15) -> str:
    try:
        return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""
