"""Errors of checkpoint stores, with the store, the cause and a hint."""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from inference.errors import StoreError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

_SERVERS = re.compile(r"[\w.-]+(:\d+)?(,[\w.-]+(:\d+)?)+")
"""Several servers, of which a client takes the first that it can use."""
WRITABLE = "set HOPGRAPH_CHECKPOINTS or HOPGRAPH_HOME to a place that can be written"

_CALLS = ("aget_tuple", "aput", "aput_writes", "adelete_thread", "adelete_for_runs", "acopy_thread", "aprune", "fetch")

Saver = TypeVar("Saver", bound="BaseCheckpointSaver[str]")


def sqlite_error(path: Path, error: Exception) -> StoreError:
    """The error of a checkpoint file, with a hint."""
    hints = {
        "full": "free disk space; finished steps are kept, and the same command resumes from there",
        "disk I/O": "is the disk full or failing? Finished steps are kept, and the same command resumes from there",
        "readonly": WRITABLE,
        "locked": "another process has locked it; run the same command again when that one has ended",
        "unable to open": f"is the path that of a file? If its folder can't be written, {WRITABLE}",
        "is newer": "upgrade this installation, or use the one that wrote it",
    }
    damaged = "if it is damaged or belongs to another program, move the file away; a new one is created"
    hint = next((hint for sign, hint in hints.items() if sign in str(error)), damaged)
    return StoreError(f"checkpoints in {path}: {one_line(error)}", hint=hint)


def postgres_error(url: str, error: Exception) -> StoreError:
    """The error of a Postgres store; `url` without its password."""
    return StoreError(
        f"checkpoints in {url}: {one_line(error)}",
        hint="finished steps are kept; run the same command again when the server is back",
    )


def without_password(url: str) -> str:
    """A URL without user, password and options, for messages; a file path unchanged."""
    if "@" not in url and "?" not in url:
        return url
    try:
        parts = urlsplit(url)
        servers = parts.netloc.rpartition("@")[2]
        if not _SERVERS.fullmatch(servers):
            servers = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return "a malformed URL"
    return parts._replace(netloc=servers, query="").geturl()


def one_line(error: Exception) -> str:
    """An error's text in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def with_clear_errors(saver: Saver, explain: Callable[[Exception], StoreError], place: str) -> Saver:
    """Make a checkpointer raise `StoreError`s with a hint for its own errors and those of decoding."""
    from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
    from langgraph.checkpoint.serde.types import ERROR

    # msgpack, JSON, UTF-8 and zlib raise ValueError on damaged bytes.
    known: tuple[type[Exception], ...] = (sqlite3.Error, OSError, ValueError, NotImplementedError)
    if "://" in place:
        import psycopg
        from psycopg_pool import PoolTimeout

        known += (psycopg.Error, PoolTimeout)

    def awaited(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        async def wrapped(*args: Any, **options: Any) -> Any:
            try:
                return await call(*args, **options)
            except known as error:
                raise explain(error) from error

        return wrapped

    def listed(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        async def wrapped(*args: Any, **options: Any) -> AsyncIterator[Any]:
            try:
                async for found in call(*args, **options):
                    yield found
            except known as error:
                raise explain(error) from error

        return wrapped

    async def checked(config: RunnableConfig) -> CheckpointTuple | None:
        found = await read(config)
        if found is not None:
            plain = isinstance(found.checkpoint, dict) and isinstance(found.metadata, dict)
            version = found.checkpoint.get("v") if plain else None
            if not isinstance(version, int):
                raise explain(ValueError("stored value is not a checkpoint"))
            if version > newest_format():
                raise explain(ValueError(f"checkpoint format {version} is newer than this LangGraph's"))
        return found

    def newest_format() -> int:
        from langgraph.pregel._checkpoint import LATEST_VERSION  # not the older one of langgraph.checkpoint.base

        return LATEST_VERSION

    async def written(config: RunnableConfig, writes: Sequence[tuple[str, Any]], *place: Any, **named: Any) -> None:
        # When a task fails between its node and the edges after it, LangGraph saves the node's writes beside the error.
        # On resume it would count as a successful task without successors, and the run would end. So only LangGraph's
        # own entries of a failed task are stored (error, interrupt, a person's decision), and the node runs again.
        if any(channel == ERROR for channel, _ in writes):
            writes = [row for row in writes if row[0] in WRITES_IDX_MAP]
        await write(config, writes, *place, **named)

    read, write = saver.aget_tuple, saver.aput_writes
    saver.aget_tuple = checked  # type: ignore[method-assign]
    saver.aput_writes = written  # type: ignore[method-assign]
    names = (
        "aget_tuple",
        "aput",
        "aput_writes",
        "adelete_thread",
        "adelete_for_runs",
        "acopy_thread",
        "aprune",
        "fetch",
    )
    for name in names:
        own = getattr(type(saver), name, None)
        if own is not getattr(BaseCheckpointSaver, name, None):  # not implemented: no storage error
            setattr(saver, name, awaited(getattr(saver, name)))
    saver.alist = listed(saver.alist)  # type: ignore[method-assign]
    saver.place = place  # type: ignore[attr-defined]
    return saver
