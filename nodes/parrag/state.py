"""PAR-RAG's state."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from nodes.kit.state import PassageRef, State


class Attempt(TypedDict):
    """One answer to a step of PAR-RAG's plan, and its review (Sec. 3.4)."""

    documents: list[PassageRef]
    answer: str
    cited: list[str]
    """Ids of the passages it cites: its evidence. Without an answer there is none."""
    uncited: bool
    """It cites none of them: all retrieved passages are its evidence."""
    accuracy: float | None
    """A (Eq. 7), judged by the model, 0..1."""
    attribution: str
    """`contradictory`, `extrapolatory` or `attributable`; "" if not reviewed."""
    credibility: float | None
    """F (Eq. 8): 0, .5 or 1."""
    confidence: float | None
    """C (Eq. 10)."""
    decided: NotRequired[str]
    """What a person decided, `accept` or `reject`, whatever the confidence; absent without review."""


class Judgement(TypedDict):
    """Verdict of one of the two judges on the latest answer."""

    value: float
    label: str
    problem: str
    """Why its output can't be used; the value is then the conservative one."""
    truncated: int
    """Passages left out of its prompt."""


class PlanStep(TypedDict):
    """A step of PAR-RAG's plan, and its answers."""

    thought: str
    question: str
    action: Literal["Retrieve", "Answer"]
    asked: str
    """The question as it was refined with the answers before it."""
    attempts: list[Attempt]
    """The first answer, and the one after re-retrieval if there was one."""
    chosen: int
    """Index of the one that counts."""


class ParState(State, total=False):
    """PAR-RAG: a plan, and its steps with their reviews."""

    hops: int
    """Predicted hop count, 1..4 (Eq. 6)."""
    alpha: float
    """Weight of accuracy against credibility (Eq. 9)."""
    exemplars: list[str]
    """Ids of the exemplars in the planner's prompt."""
    plan: list[PlanStep]
    current: int
    """Index of the current step."""
    accuracy: Judgement
    attribution: Judgement
