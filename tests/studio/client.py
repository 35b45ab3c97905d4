"""What a person does in Studio, by the local server's HTTP interface, with httpx alone.

Each function takes the server's address and, where it matters, a method; what it can't do is an AssertionError that
says why. Nothing depends on what the model replies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

__all__ = [
    "assistant",
    "call",
    "edit",
    "error_of",
    "finish",
    "fork",
    "history",
    "new_thread",
    "prompts",
    "run",
    "start",
    "state",
    "step_through",
    "wait",
    "wait_until",
    "waiting",
]

Json = dict[str, Any]
SECONDS = 600.0
"""Longest a run may take: the embedded model on two cores is slow."""
MOST_STEPS = 120


def call(url: str, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The JSON that the server answers with."""
    answer = httpx.request(verb, f"{url}{path}", json=body, timeout=SECONDS, trust_env=False)
    assert answer.is_success, f"{verb} {path}: {answer.status_code} {answer.text[:500]}"
    return answer.json() if answer.content else None


def assistant(url: str, method: str) -> str:
    """Id of the assistant that the server itself makes of a method."""
    (found,) = call(url, "POST", "/assistants/search", {"graph_id": method, "metadata": {"created_by": "system"}})
    return str(found["assistant_id"])


def prompts(url: str, method: str) -> dict[str, Json]:
    """The prompt fields of the form that Studio shows."""
    schemas = call(url, "GET", f"/assistants/{assistant(url, method)}/schemas")
    fields = schemas["context_schema"]["properties"]
    return {name: field for name, field in fields.items() if field.get("langgraph_type") == "prompt"}


def new_thread(url: str, method: str) -> str:
    """Id of a new thread."""
    return str(call(url, "POST", "/threads", {"metadata": {"graph_id": method}})["thread_id"])


def start(url: str, method: str, thread: str, given: Json | None, **options: Any) -> str:
    """Start a run. Returns its id.

    Args:
        url: The server.
        method: The graph.
        thread: The thread.
        given: The input; None goes on from where the thread is.
        options: Others of the request, such as `context`, `interrupt_before`, `checkpoint_id`, `command`.
    """
    run = call(url, "POST", f"/threads/{thread}/runs", {"assistant_id": method, "input": given, **options})
    return str(run["run_id"])


def wait(url: str, thread: str, run: str) -> str:
    """Status of a run when it has ended."""
    call(url, "GET", f"/threads/{thread}/runs/{run}/join")
    return str(call(url, "GET", f"/threads/{thread}/runs/{run}")["status"])


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)


def finish(url: str, method: str, thread: str, given: Json | None, **options: Any) -> Json:
    """Start a run and wait for it. Returns the thread's state.

    Raises:
        AssertionError: It failed; the message is the server's.
    """
    status = wait(url, thread, start(url, method, thread, given, **options))
    assert status in ("success", "interrupted"), f"{method}: {status}: {error_of(url, thread)}"
    return state(url, thread)


def run(url: str, method: str, given: Json, **options: Any) -> tuple[str, Json]:
    """Run a method on a new thread to its end. Returns the thread and its values."""
    thread = new_thread(url, method)
    ended = finish(url, method, thread, given, **options)
    assert ended["next"] == [], f"{method} stopped before {ended['next']}"
    return thread, ended["values"]


def state(url: str, thread: str) -> Json:
    """Where a thread is."""
    found: Json = call(url, "GET", f"/threads/{thread}/state")
    return found


def history(url: str, thread: str) -> list[Json]:
    """The thread's states, newest first."""
    found: list[Json] = call(url, "POST", f"/threads/{thread}/history", {"limit": 1000})
    return found


def error_of(url: str, thread: str) -> str:
    """What the server says of a thread's failed run; "" if there is nothing."""
    error = call(url, "GET", f"/threads/{thread}").get("error")
    tasks = [task["error"] for task in state(url, thread)["tasks"] if task.get("error")]
    return str(error or tasks or "")


def edit(url: str, thread: str, values: Json, as_node: str | None = None) -> None:
    """Change a thread's state, as if a node had written it."""
    call(url, "POST", f"/threads/{thread}/state", {"values": values, **({"as_node": as_node} if as_node else {})})


def step_through(url: str, method: str, given: Json, edited: Json, **options: Any) -> tuple[list[str], Json]:
    """Run with a breakpoint before every node, and change the state at each stop behind the first node.

    Args:
        url: The server.
        method: The graph.
        given: The input.
        edited: Written to the state at each stop.
        options: Of the runs.

    Returns:
        The nodes that it stopped before, and the values at the end.
    """
    thread = new_thread(url, method)
    stops: list[str] = []
    ahead: Json | None = given
    for _ in range(MOST_STEPS):
        there = finish(url, method, thread, ahead, interrupt_before="*", **options)
        if not there["next"]:
            return stops, there["values"]
        if stops:
            edit(url, thread, edited, stops[-1])
            assert state(url, thread)["next"] == there["next"], "an edit moved the thread"
        stops += there["next"]
        ahead = None
    raise AssertionError(f"{method}: no end after {MOST_STEPS} stops: {stops}")


def fork(url: str, method: str, thread: str, **options: Any) -> Json:
    """Go on once more from a checkpoint in the middle of a thread that has ended. Returns the values at the end."""
    before = history(url, thread)
    middle = [row for row in before if row["next"] and row["next"] != ["__start__"]]
    assert middle, "no checkpoint to fork from"
    row = middle[len(middle) // 2]
    ended = finish(url, method, thread, None, checkpoint_id=row["checkpoint"]["checkpoint_id"], **options)
    assert ended["next"] == [], f"{method}: the fork stopped before {ended['next']}"
    assert len(history(url, thread)) > len(before), "the fork left no checkpoint"
    values: Json = ended["values"]
    return values


def waiting(url: str, thread: str) -> list[Json]:
    """What a person has to decide: `id` and `value` of each."""
    return [row for rows in call(url, "GET", f"/threads/{thread}")["interrupts"].values() for row in rows]
