"""Position of the caller in a run, from LangGraph: thread, graph, superstep, node."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal

from langgraph.config import get_config
from typing_extensions import TypedDict

from inference.ledger import Call

_ASCII_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def node_name() -> str:
    """Name of the running node in its graph."""
    return str(get_config().get("metadata", {}).get("langgraph_node", ""))


class Place(TypedDict):
    """Position of the running node in the run, for the ledger."""

    superstep: int
    task: str
    outer: list[tuple[str, str]]


def place() -> Place:
    """Position of the running node: superstep, a name that is unique among its tasks, and the enclosing graphs."""
    config = get_config()
    metadata = config.get("metadata", {})
    *outer, _ = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
    # A graph has one checkpoint per superstep.
    checkpoints = config.get("configurable", {}).get("checkpoint_map", {})
    return Place(
        superstep=int(metadata.get("langgraph_step", 0)),
        task="/".join(map(str, metadata.get("langgraph_path", ()))),
        outer=[(str(checkpoints.get("|".join(outer[:depth]), "")), task) for depth, task in enumerate(outer)],
    )


def thread_id() -> str:
    """The running thread's id, in ASCII; `local` if the run is not checkpointed."""
    raw = str(get_config().get("configurable", {}).get("thread_id") or "local")
    return raw if _ASCII_ID.fullmatch(raw) else hashlib.sha256(raw.encode()).hexdigest()[:32]


def ledger_entry(
    id: str,
    kind: Literal["model", "search", "rerank"],
    *,
    node: str,
    step: str,
    prompt: str = "",
    prompt_hash: str = "",
    model: str = "",
    started: float = 0.0,
    seconds: float = 0.0,
    found: Sequence[str] = (),
) -> Call:
    """An entry of the ledger for the running node; a model's reply adds tokens, times and finish reason."""
    return Call(
        id=id,
        kind=kind,
        node=node,
        step=step,
        prompt=prompt,
        prompt_hash=prompt_hash,
        model=model,
        prompt_tokens=0,
        completion_tokens=0,
        cached_tokens=0,
        started=round(started, 3),
        seconds=round(seconds, 3),
        finish_reason="",
        cached=False,
        repair=False,
        found=list(found),
        **place(),
    )
