"""Locks between processes, on files. The kernel releases a lock when its process ends, however it ends.

`flock`, not the `filelock` package: readers share locks here, and a subprocess inherits one.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def lock(file: IO[Any] | int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file or descriptor until it is closed; False if another process has it.

    Args:
        file: The file; the lock lasts while it is open, also in child processes that inherit it.
        shared: A shared lock instead of an exclusive one.
        wait: Block until it is acquired; the result is then True.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def unlock(file: IO[Any] | int) -> None:
    """Release a lock; the file stays open."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file, created if missing; blocks until it is free."""
    with path.open("ab") as file:
        lock(file, wait=True)
        yield


@contextmanager
def claimed(path: Path, taken: Exception) -> Iterator[None]:
    """Hold a lock file, created if missing; raises `taken` if another process holds it."""
    with path.open("ab") as file:
        if not lock(file):
            raise taken
        yield


def is_locked(path: Path) -> bool:
    """Whether a running process holds an exclusive lock on a file; writes nothing."""
    try:
        with path.open("rb") as file:
            return not lock(file, shared=True)
    except OSError:
        return False
