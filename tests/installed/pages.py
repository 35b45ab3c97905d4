"""Runs the blocks of a page as a reader would type them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.installed.blocks import Block, shown

LIMIT = 900.0
"""Seconds that a block may take."""
STARTING = 180.0
"""Seconds until a server is up."""
SHELL = """
while read -r -u "$1" hopgraph_block; do
    . "$hopgraph_block" < /dev/null
    env -0 > "$hopgraph_block.env"
    pwd > "$hopgraph_block.folder"
    echo 0 >&"$2"
done
"""
DRIVER = Path(__file__).with_name("driver.py")


@dataclass
class Page:
    """One reader of one page: a shell, a Python process, and servers in the background.

    Attributes:
        folder: Where it begins, and where files of the page are written.
        variables: The environment it begins with.
        scratch: Folder for the blocks and their output.
        options: Further arguments of `subprocess.Popen`, such as the user.
    """

    folder: Path
    variables: dict[str, str]
    scratch: Path
    options: dict[str, Any] = field(default_factory=dict)
    seconds: list[tuple[str, float]] = field(default_factory=list)
    _shell: _Worker | None = None
    _python: _Worker | None = None
    _servers: list[_Server] = field(default_factory=list)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def run(self, block: Block) -> None:
        """Run a block, write it to a file, or pass it over.

        Raises:
            AssertionError: It failed, took too long, or a server did not start.
        """
        if "file" in block.notes:
            path = self.folder / block.notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code, encoding="utf-8")
        if not block.is_run:
            return
        start = time.monotonic()
        code = self.scratch / f"{len(self.seconds):03}"
        code.write_text(block.code, encoding="utf-8")
        if "serves" in block.notes:
            self._serve(block, code)
        elif block.language == "sh":
            self._in_shell(block, code)
        else:
            self._in_python(block, code)
        self.seconds.append((block.place, time.monotonic() - start))

    def close(self) -> None:
        """Stop everything; servers with SIGINT.

        Raises:
            AssertionError: A server did not exit cleanly.
        """
        try:
            for server in reversed(self._servers):
                server.stop()
        finally:
            for worker in (self._shell, self._python):
                if worker is not None:
                    worker.kill()
            self._stack.close()

    def _in_shell(self, block: Block, code: Path) -> None:
        if self._shell is None:
            self._shell = _Worker(["bash", "-eu", "-c", SHELL, "bash"], self.folder, self.variables, self)
        self._shell.run(block, f"{code}\n")
        self.variables = dict(
            line.split("=", 1)
            for line in Path(f"{code}.env").read_text(encoding="utf-8").split("\0")
            if "=" in line and not line.startswith("BASH_FUNC")
        )
        self.folder = Path(Path(f"{code}.folder").read_text(encoding="utf-8").rstrip("\n"))

    def _in_python(self, block: Block, code: Path) -> None:
        if self._python is None:
            self._python = _Worker(["python", str(DRIVER)], self.folder, self.variables, self)
        self._python.run(block, json.dumps([str(code), block.place]) + "\n")

    def _serve(self, block: Block, code: Path) -> None:
        if not self._servers:
            self._stack.enter_context(_one_at_a_time())
        server = _Server(block, code, self)
        try:
            server.wait()
        except BaseException:
            server.kill()
            raise
        self._servers.append(server)


class _Worker:
    """A process that runs one block after another, told so through pipes."""

    def __init__(self, command: list[str], folder: Path, variables: dict[str, str], page: Page) -> None:
        take, self._give = os.pipe()
        self._done, reply = os.pipe()
        self._log = (page.scratch / f"{command[0]}.log").open("w+b")
        self._process = subprocess.Popen(
            [*_found(command, variables), str(take), str(reply)],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=(take, reply),
            start_new_session=True,
            **page.options,
        )
        os.close(take)
        os.close(reply)

    def run(self, block: Block, command: str) -> None:
        start = self._log.seek(0, os.SEEK_END)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._give, command.encode())
        problem = self._wait()
        if problem:
            raise AssertionError(f"{block.place}: {problem}\n{shown(block.code)}\n{_tail(self._log, start)}")

    def _wait(self) -> str:
        """Until the block has ended; what went wrong, or nothing."""
        deadline = time.monotonic() + LIMIT
        replies = select.poll()  # unlike `select`, it takes descriptors beyond 1,023
        replies.register(self._done, select.POLLIN)
        while time.monotonic() < deadline:
            if replies.poll(200):
                if reply := os.read(self._done, 16).strip():
                    return "" if reply == b"0" else "failed"
                self._process.wait()
            # Not by the end of the pipe alone: what the block left running may hold it open.
            if self._process.poll() is not None:
                return f"failed with exit code {self._process.returncode}"
        return f"took more than {LIMIT:.0f} s"

    def kill(self) -> None:
        _kill(self._process)
        os.close(self._give)
        os.close(self._done)
        self._log.close()


class _Server:
    """A block that does not return."""

    def __init__(self, block: Block, code: Path, page: Page) -> None:
        self._block = block
        self._log = code.with_suffix(".log").open("w+b")
        self._process = subprocess.Popen(
            ["bash", "-eu", str(code)],
            cwd=page.folder,
            env=page.variables,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_default_sigint,  # pytest in the background may have been started with SIGINT ignored
            **page.options,
        )

    def wait(self) -> None:
        """Until it is up."""
        pattern = self._block.notes["serves"]
        up: Callable[[], bool] = (lambda: _accepts(int(pattern))) if pattern.isdigit() else self._printed
        deadline = time.monotonic() + STARTING
        while not up():
            assert self._process.poll() is None, self._said(f"ended with exit code {self._process.returncode}")
            assert time.monotonic() < deadline, self._said(f"did not serve {pattern} within {STARTING:.0f} s")
            time.sleep(0.1)

    def _printed(self) -> bool:
        return re.search(self._block.notes["serves"], _tail(self._log, 0)) is not None

    def stop(self) -> None:
        try:
            assert self._process.poll() is None, self._said(f"ended early, exit code {self._process.returncode}")
            os.killpg(self._process.pid, signal.SIGINT)
            try:
                code = self._process.wait(60)
            except subprocess.TimeoutExpired:
                raise AssertionError(self._said("does not end after ctrl-C")) from None
            assert code in (0, 130, -signal.SIGINT), self._said(f"ended with exit code {code} after ctrl-C")
            assert "Traceback" not in _tail(self._log, 0), self._said("ended with a traceback")
        finally:
            self.kill()

    def kill(self) -> None:
        _kill(self._process)
        self._log.close()

    def _said(self, what: str) -> str:
        return f"{self._block.place}: the server {what}\n{shown(self._block.code)}\n{_tail(self._log, 0)}"


def _found(command: list[str], variables: dict[str, str]) -> list[str]:
    """The command with its program looked up on the page's own PATH."""
    for folder in variables["PATH"].split(os.pathsep):
        if os.access(program := Path(folder, command[0]), os.X_OK):
            return [str(program), *command[1:]]
    raise AssertionError(f"no {command[0]} on PATH: {variables['PATH']}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _default_sigint() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _tail(log: IO[bytes], start: int) -> str:
    """The output since `start`, at most 6,000 characters."""
    log.flush()
    text = Path(log.name).read_bytes()[start:]
    return text.decode(errors="replace")[-6000:]


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Held while a page's servers run: pages print fixed ports, and several may be run at the same time."""
    with (Path(tempfile.gettempdir()) / f"hopgraph-pages-{os.getuid()}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
