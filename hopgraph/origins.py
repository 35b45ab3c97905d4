"""Thread ids, and the origin of a thread from its checkpoints' metadata. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from inference.errors import InputError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from hopgraph.results import Change
    from nodes.kit.context import Context

NAMESPACE = uuid.UUID("6f0c1a52-43f1-5a0e-9d3c-2f6d8b7e4a10")
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEY = "hopgraph"
_SERVERS = ("graph_id", "assistant_id", "run_id")
"""Keys by which the local server identifies a thread and the runs it resumes."""


@dataclass(frozen=True)
class Origin:
    """Method, question and settings that a thread was started with."""

    method: str
    id: str
    """Question id."""
    question: str
    """"" if only the run's state has it."""
    context: dict[str, Any] | None
    """Settings given; None if only the run's state has them."""
    changes: list[Change] = field(default_factory=list)
    """Settings that were changed when it was resumed."""

    def metadata(self) -> dict[str, str]:
        """The entry of the checkpoints' metadata, as `origin_of` reads it."""
        row: dict[str, Any] = {"method": self.method, "id": self.id, "question": self.question}
        row |= {"context": self.context} | ({"changes": self.changes} if self.changes else {})
        return {_KEY: json.dumps(row, ensure_ascii=False)}


def origin_of(metadata: Mapping[str, Any]) -> Origin | None:
    """The origin in a checkpoint's metadata, written by `ask` or by the local server; None if there is none."""
    try:
        row = json.loads(metadata[_KEY])
        changes: list[Change] = [{"at": str(c["at"]), "settings": dict(c["settings"])} for c in row.get("changes", [])]
        return Origin(str(row["method"]), str(row["id"]), str(row["question"]), dict(row["context"]), changes)
    except (KeyError, ValueError, TypeError, AttributeError):
        graph = metadata.get("graph_id")
        return Origin(graph, "ask", "", None) if isinstance(graph, str) else None


async def find_origin(thread: str, saver: BaseCheckpointSaver[str]) -> tuple[Origin, dict[str, Any]] | None:
    """The origin in the newest checkpoint that has one, and the metadata entries to keep.

    A state that was edited in Studio, or a run of an older version, may lack it in the latest one.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    latest = await saver.aget_tuple(config)
    found = _origin_and_entries(latest) if latest else None
    if latest is None or found is not None:
        return found
    async for row in saver.alist(config):
        if (found := _origin_and_entries(row)) is not None:
            break
    return found


def _origin_and_entries(row: CheckpointTuple) -> tuple[Origin, dict[str, Any]] | None:
    metadata = cast("dict[str, Any]", row.metadata)
    origin = origin_of(metadata)
    entries = {name: value for name in (_KEY, *_SERVERS) if isinstance(value := metadata.get(name), str)}
    return None if origin is None else (origin, entries)


def thread_of(run: str, context: Context, question_id: str) -> str:
    """Id of a question's thread in a run: the same run, method, question and settings give the same thread."""
    settings = hashlib.sha256(context.model_dump_json().encode()).hexdigest()
    return str(uuid.uuid5(NAMESPACE, "\0".join([run, context.method, question_id, settings])))


def new_thread(context: Context) -> str:
    """Id of a new thread."""
    return thread_of(str(uuid.uuid4()), context, "ask")


def check_thread(thread: str) -> str:
    """`thread`, if it is a valid thread id.

    Raises:
        InputError: It is not.
    """
    if not _THREAD.fullmatch(thread):
        raise InputError(
            f"thread: {thread[:120]!r} is not a thread id", hint="letters, digits, '.', '_' and '-', at most 100"
        )
    return thread


def config_of(thread: str) -> RunnableConfig:
    """LangGraph's configuration for a thread."""
    return {"configurable": {"thread_id": thread}}
