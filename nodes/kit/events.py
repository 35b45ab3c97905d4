"""Events of a running graph for a user interface, by LangGraph's `custom` stream.

`graph.astream(..., stream_mode="custom", subgraphs=True)` yields them, LangGraph's server streams them, and
`hopgraph.run.astream`, `ask(..., on_event=...)` and `hopgraph ask --stream` give them together with the steps. Each has
a `type`, the `step` it belongs to (an id of the trajectory) and the `node`. A resumed run may send an event a second
time, with the same type and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from nodes.kit.state import Hit, Step


class AskedEvent(TypedDict):
    """A question or sub-question is searched for."""

    type: Literal["asked"]
    step: str
    node: str
    question: str


class FoundEvent(TypedDict):
    """The search has results, best first."""

    type: Literal["found"]
    step: str
    node: str
    question: str
    passages: Sequence[Hit]
    """CompactRAG finds question-answer pairs."""


class RepliedEvent(TypedDict):
    """A model call has its reply."""

    type: Literal["replied"]
    step: str
    node: str
    call: str
    """Id of the call: its `X-Request-Id`."""
    prompt: str
    """Name of the prompt."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    problem: str
    """Why the reply can't be used; else ""."""


class JudgedEvent(TypedDict):
    """An answer, a passage or a chain of answers was judged."""

    type: Literal["judged"]
    step: str
    node: str
    question: str
    answer: str
    """What was judged: an answer, or a passage's title."""
    verdict: str
    """Such as `accepted`, `rejected: confidence 0.41 is below 0.95`, `relevant`, `not sufficient`."""
    score: float | None
    evidence: list[str]
    """Ids of the passages it is about."""


class StepEvent(TypedDict):
    """A step of the trajectory has ended. Not in the `custom` stream: LangGraph's `updates` have it."""

    type: Literal["step"]
    step: Step


CustomEvent = AskedEvent | FoundEvent | RepliedEvent | JudgedEvent
Event = CustomEvent | StepEvent


def tell(runtime: Runtime[Any], event: CustomEvent) -> None:
    """Send an event to listeners."""
    runtime.stream_writer(event)


def tell_verdicts(runtime: Runtime[Any], steps: Sequence[Step]) -> None:
    """Send the verdicts of steps."""
    for step in steps:
        event = JudgedEvent(
            type="judged",
            step=step["id"],
            node=step["node"],
            question=step["question"],
            answer=step["answer"],
            verdict=step["verdict"],
            score=step["score"],
            evidence=step["evidence"],
        )
        tell(runtime, event)
