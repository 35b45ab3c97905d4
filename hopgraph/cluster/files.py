"""Files on a disk that all nodes share: locks that a dead node may hold, and files that grow."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from inference.errors import StoreError

_LOCK_PATIENCE = 120.0
"""Seconds to wait for a lock, which a worker holds until its node's death is noticed."""


@asynccontextmanager
async def held(lock: Callable[[], AbstractContextManager[object]]) -> AsyncIterator[None]:
    """Hold a lock that raises StoreError when another process has it; waits for a worker whose node has died."""
    deadline = time.monotonic() + _LOCK_PATIENCE
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock())
                break
            except StoreError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.5)
        yield


class Tail:
    """New lines of a growing file of JSON Lines, which may be replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """The complete lines since the last call, or all if the file was replaced."""
        try:
            with self._path.open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                if number != self._file:
                    self._file, self._offset = number, 0
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return []
        end = text.rfind(b"\n") + 1
        self._offset += end
        return [json.loads(line) for line in text[:end].splitlines()]
