"""A whole run as its checkpoints have it: the result, every model call with request and reply, and the path taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langgraph.constants import TASKS

from hopgraph.methods import load
from hopgraph.results import Result, result_of
from hopgraph.threads import Thread, read_thread, readable, values_of
from nodes.kit.request import unpack_prompt
from nodes.kit.state import SentenceRef

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from inference.ledger import Call

_BRANCH = "branch:to:"
"""Of the channel by which LangGraph starts a node."""
_RETURN = "__return__"
"""Channel of a task's result."""


@dataclass(frozen=True)
class Exchange:
    """A model call: its entry in the ledger, the request and the reply."""

    call: Call
    prompt: list[tuple[str, str]]
    """Role and text of each message."""
    reply: str


@dataclass(frozen=True)
class RunRecord:
    """A run, finished or not."""

    thread: Thread
    result: Result
    state: dict[str, Any]
    """The run's last state."""
    sentences: list[SentenceRef]
    """The sentences that the method chose as evidence, where it works with sentences."""
    exchanges: list[Exchange]
    """In the order in which the calls were made, those of steps that were cut off included."""
    visits: dict[str, int]
    """How often each node ran, by its name in the drawing of the opened graph (`anrag:judge` for one in a subgraph)."""


async def read_record(thread: str, saver: BaseCheckpointSaver[str]) -> RunRecord:
    """Everything that is known of a thread.

    Raises:
        StoreError: There is no such thread, or what is kept of it can't be read.
    """
    found = await read_thread(thread, saver)
    with readable(thread):
        return await _read(found, saver)


async def _read(found: Thread, saver: BaseCheckpointSaver[str]) -> RunRecord:
    thread = found.id
    snapshot = await load(found.method, saver).aget_state({"configurable": {"thread_id": thread}}, subgraphs=True)
    state = values_of(snapshot)
    exchanges: dict[str, Exchange] = {}
    visits: Counter[str] = Counter()
    # Without a namespace in the configuration, the checkpoints of subgraphs are listed, too.
    async for checkpoint in saver.alist({"configurable": {"thread_id": thread}}):
        space = str(checkpoint.config["configurable"].get("checkpoint_ns") or "")
        inside = [part.partition(":")[0] for part in space.split("|") if part]
        started: list[str] = []
        for _, channel, value in checkpoint.pending_writes or []:
            if channel == _RETURN and isinstance(value, dict) and "prompt" in value:
                call = cast("Call", value["call"])
                exchanges[call["id"]] = Exchange(call, _prompt(value["prompt"]), str(value["text"]))
            elif channel == TASKS:
                started.append(value.node)
            elif channel.startswith(_BRANCH) and channel.removeprefix(_BRANCH) not in started:
                started.append(channel.removeprefix(_BRANCH))
        visits.update(":".join([*inside, name]) for name in started)
    result = result_of(state, id=found.question_id, method=found.method, question=found.question, thread=thread)
    return RunRecord(
        thread=found,
        result=result,
        state=dict(state),
        sentences=[(str(key), int(index)) for key, index in state.get("sentences", [])],
        exchanges=sorted(exchanges.values(), key=lambda exchange: exchange.call["started"]),
        visits=dict(visits),
    )


def _prompt(packed: bytes) -> list[tuple[str, str]]:
    try:
        return unpack_prompt(packed)
    except ValueError:
        return []
