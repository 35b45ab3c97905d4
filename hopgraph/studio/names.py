"""Threads whose ids are not UUIDs, such as those of `hopgraph ask --thread NAME`, on LangGraph's local server.

The server accepts only UUIDs as thread ids. It knows such a thread by a UUID made of its name; the checkpointer that it
gets translates between the two. The names are kept in the server's state folder.
"""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hopgraph.origins import NAMESPACE, check_thread

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    Saver = TypeVar("Saver", bound=BaseCheckpointSaver[str])

NAMES = "names.json"
"""Names by UUID, in the state folder."""


def is_uuid(thread: str) -> bool:
    """Whether the server accepts a thread's id."""
    try:
        return str(uuid.UUID(thread)) == thread
    except ValueError:
        return False


def served_id(thread: str) -> str:
    """The id by which the server knows a thread: its own if it is a UUID."""
    return thread if is_uuid(thread) else str(uuid.uuid5(NAMESPACE, f"thread\0{thread}"))


class Names:
    """The threads with names that the server knows.

    Args:
        folder: The server's state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAMES
        try:
            rows = json.loads(self._path.read_text("utf-8"))
            self._names = {str(key): check_thread(str(name)) for key, name in rows.items()}
        except FileNotFoundError:
            self._names = {}

    def add(self, thread: str) -> str:
        """Remember a thread's name. Returns the id by which the server knows it.

        Raises:
            InputError: It is not a thread id.
            OSError: The state folder can't be written.
        """
        key = served_id(check_thread(thread))
        if key != thread and key not in self._names:
            self._names[key] = thread
            scratch = self._path.with_name(f"{NAMES}.{os.getpid()}")
            scratch.write_text(json.dumps(self._names), encoding="utf-8")
            scratch.replace(self._path)
        return key

    def stored(self, thread: str) -> str:
        """The id by which the checkpoint store knows a thread of the server."""
        return self._names.get(thread, thread)

    def translating(self, saver: Saver) -> Saver:
        """Make a checkpointer take and give the server's ids; returns the checkpointer."""

        def inward(value: Any) -> Any:
            """An argument: a configuration, or the id of a thread."""
            if isinstance(value, str):
                return self.stored(value)
            if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
                return [self.stored(part) for part in value]
            return self._changed(value, self.stored)

        def outward(value: Any) -> Any:
            """A result: a configuration, or a checkpoint with two of them."""
            if not hasattr(value, "config"):
                return self._changed(value, served_id)
            both = {name: self._changed(getattr(value, name), served_id) for name in ("config", "parent_config")}
            return value._replace(**both)

        def awaited(call: Callable[..., Any], at: int) -> Callable[..., Any]:
            @functools.wraps(call)
            async def wrapped(*args: Any, **options: Any) -> Any:
                given = [inward(value) if place < at else value for place, value in enumerate(args)]
                named = {key: inward(value) if key in _THREADS else value for key, value in options.items()}
                return outward(await call(*given, **named))

            return wrapped

        def listed(call: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(call)
            async def wrapped(config: Any, *, before: Any = None, **options: Any) -> AsyncIterator[Any]:
                async for found in call(inward(config), before=inward(before), **options):
                    yield outward(found)

            return wrapped

        for name, count in _METHODS.items():
            setattr(saver, name, awaited(getattr(saver, name), count))
        saver.alist = listed(saver.alist)  # type: ignore[method-assign]
        return saver

    @staticmethod
    def _changed(config: Any, change: Callable[[str], str]) -> Any:
        own = config.get("configurable") if isinstance(config, dict) else None
        if not own or "thread_id" not in own or (now := change(str(own["thread_id"]))) == own["thread_id"]:
            return config
        return config | {"configurable": own | {"thread_id": now}}


_METHODS = {
    "aget_tuple": 1,
    "aget_delta_channel_history": 0,
    "aput": 1,
    "aput_writes": 1,
    "adelete_thread": 1,
    "acopy_thread": 2,
    "aprune": 1,
}
"""Methods of a checkpointer, and how many of their first arguments name threads."""
_THREADS = frozenset({"config", "thread_id", "thread_ids", "source_thread_id", "target_thread_id"})
"""Names of such arguments."""


@functools.lru_cache
def names() -> Names:
    """Those of the working directory, in the server's process."""
    return Names(Path())
