"""Parses files in another process, with limits on time and memory: no file can stop the others."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from inference.errors import InputError
from stores.readers.sections import Parsed, Part, Section

MEMORY = 2_000_000_000
"""Bytes of address space of the process."""
SECONDS = 120.0
"""Time for a file, and `SECONDS_PER_MB` more for each megabyte."""
SECONDS_PER_MB = 20.0
OUT_OF_MEMORY = 75
"""Exit code of the process where a file needs more memory than it may have."""
_WORKER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from stores.readers.worker import main
main(int(sys.argv[2]))
"""
_log = logging.getLogger(__name__)


class IsolatedParser:
    """Parses files one after another in a process, which starts with the first and ends with the block.

    Args:
        seconds: Time for a file, besides what its size adds.
        memory: Bytes of address space for the process; enforced on Linux.
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0

    def __enter__(self) -> IsolatedParser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._folder is not None:
            self._folder.cleanup()

    def parse(self, path: Path) -> Parsed:
        """As `stores.documents.parse_document`.

        Raises:
            InputError: Also if it takes too long, needs too much memory or crashes its parser.
        """
        self._files += 1
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="hopgraph-")
        out = Path(self._folder.name, f"{self._files}.jsonl")
        reply = self._asked(path, out)
        for warning in reply["warnings"]:
            _log.warning("%s", warning)
        if reply["error"]:
            out.unlink(missing_ok=True)
            raise InputError(reply["error"], hint=reply["hint"])
        lines = _lines(out)
        title, metadata = json.loads(next(lines))
        return Parsed(title, (_section(line) for line in lines), metadata)

    def _asked(self, path: Path, out: Path) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        limit = self._seconds + SECONDS_PER_MB * path.stat().st_size / 1e6
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps({"path": str(path), "out": str(out)}) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if line:
            reply: dict[str, Any] = json.loads(line)
            return reply
        self._end()
        if not late.is_set() and process.returncode == OUT_OF_MEMORY:
            raise InputError(f"{path}: needs too much memory", hint="leave it out, or split it")
        what = f"not read within {limit:.0f} s" if late.is_set() else "its reader crashed"
        raise InputError(f"{path}: {what}", hint="leave it out, or save it again in another format")

    def _start(self) -> subprocess.Popen[str]:
        # A session of its own: ctrl-C reaches this process only, which ends the other.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _WORKER, json.dumps(sys.path), str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.readline()  # when it is ready; how long it takes to start is not the file's fault
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file
    path.unlink(missing_ok=True)


def _section(line: str) -> Section:
    heading, parts, headings, unit, metadata = json.loads(line)
    return Section(heading, [Part(*part) for part in parts], tuple(headings), unit, metadata)
