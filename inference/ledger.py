"""The ledger: one entry for each model call, search and reranking of a run. Every cost figure is derived from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from typing_extensions import TypedDict


class Call(TypedDict):
    """One model call, one search, or one reranking by a cross-encoder, as stored in the state."""

    id: str
    """`X-Request-Id` of a model call; unique in the run."""
    kind: Literal["model", "search", "rerank"]
    """A reranking is part of its search, and in no figure but the seconds."""
    node: str
    step: str
    """Id of the trajectory step it belongs to."""
    prompt: str
    """Name of the prompt; "" for a search or a reranking."""
    prompt_hash: str
    """Hash of the prompt's text, which identifies the wording."""
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    """Prompt tokens served from the prefix cache, if reported."""
    started: float
    """Unix time in seconds."""
    seconds: float
    finish_reason: str
    cached: bool
    """Served from the response cache, without a request."""
    repair: bool
    """A second request after an invalid reply."""
    superstep: int
    task: str
    """LangGraph's task id; tasks of one superstep run in parallel."""
    outer: list[tuple[str, str]]
    """Supersteps (by checkpoint id) and tasks of the enclosing graphs, outermost first: a subgraph's superstep count
    restarts with each run."""
    found: list[str]
    """Ids of the passages that a search returned, best first; empty for a model call."""


class Cost(TypedDict):
    """Cost of a run."""

    calls: int
    """Successful requests whose reply the run kept, including repairs."""
    repairs: int
    cached_calls: int
    prompt_tokens: int
    completion_tokens: int
    searches: int
    steps: int
    """Retrieval-generation cycles (HANRAG, Sec. 5): parallel searches count as one."""
    chain: int
    """Length of the longest chain of sequential model calls."""
    seconds: float
    """Wall time with a model call or a search running; excludes the time between an interruption and its resume."""


def cost_of(ledger: Iterable[Call]) -> Cost:
    """Sum up a ledger."""
    entries = list(ledger)
    model = [call for call in entries if call["kind"] == "model"]
    asked = [call for call in model if not call["cached"]]
    searches = [call for call in entries if call["kind"] == "search"]
    return Cost(
        calls=len(asked),
        repairs=sum(call["repair"] for call in asked),
        cached_calls=len(model) - len(asked),
        prompt_tokens=sum(call["prompt_tokens"] for call in asked),
        completion_tokens=sum(call["completion_tokens"] for call in asked),
        searches=len(searches),
        steps=len({tuple(superstep for superstep, _ in _place(call)) for call in searches}),
        chain=_longest([_place(call) for call in asked]),
        seconds=round(_busy_seconds((call["started"], call["started"] + call["seconds"]) for call in entries), 3),
    )


_Place = tuple[tuple[int | str, str], ...]
"""Where a call was made: superstep and task, the outermost graph's first."""


def _place(call: Call) -> _Place:
    # Checkpoints return tuples as lists; those of older versions lack the field.
    return (*((superstep, task) for superstep, task in call.get("outer", [])), (call["superstep"], call["task"]))


def _longest(places: Iterable[_Place]) -> int:
    """Longest chain of dependent calls: supersteps are sequential, the tasks of one are parallel."""
    supersteps: dict[int | str, dict[str, list[_Place]]] = defaultdict(lambda: defaultdict(list))
    for (superstep, task), *inner in places:
        supersteps[superstep][task].append(tuple(inner))
    return sum(max(_in_task(inner) for inner in tasks.values()) for tasks in supersteps.values())


def _in_task(places: Sequence[_Place]) -> int:
    """The same within one task: its own calls are sequential, and so are the supersteps of its subgraph."""
    inside = [place for place in places if place]
    return len(places) - len(inside) + _longest(inside)


def _busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of time intervals."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
