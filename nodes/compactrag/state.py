"""CompactRAG's state."""

from __future__ import annotations

from typing import Annotated, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from nodes.kit.knowledge import PairsRef
from nodes.kit.state import GivenPassage, Hit, PassageRef, State

__all__ = [
    "CompactState",
    "Dropped",
    "Entity",
    "PairRef",
    "QAPair",
    "ReaderInput",
    "ReaderState",
    "SubQuestion",
]


class PairRef(Hit):
    """A question-answer pair of the knowledge base as the state names it; its id is `<passage id>#<number>`."""

    passage: str
    """Id of the passage that it was read from."""


class SubQuestion(TypedDict):
    """A node of CompactRAG's dependency graph (Sec. 3.2.1), and its result."""

    number: int
    """From 1; `#1` in a later one's text refers to its answer."""
    question: str
    """As the decomposition has it."""
    depends_on: list[int]
    """Whose answers it needs."""
    rewritten: str
    """With those answers put in: what is searched for, and what the extractor reads."""
    pairs: list[PairRef]
    """Retrieved, best first."""
    answer: str
    """The extracted span; "" when there is none."""
    answer_from: str
    """Id of the pair that it was extracted from."""
    probability: float | None
    """The extractor's, of the span."""
    wave: int
    """Sub-questions of one wave depend on none of each other and are worked on together; 0 while it waits."""


class CompactState(State, total=False):
    """CompactRAG, online: a graph of sub-questions."""

    knowledge: PairsRef
    plan: list[SubQuestion]
    wave: int
    """Waves begun."""


class ReaderInput(TypedDict):
    """What CompactRAG's reader is invoked with."""

    passage: str | GivenPassage
    """A passage id of the index, or a passage."""


class Entity(TypedDict):
    """A named entity of the passage that is read."""

    text: str
    label: str
    """spaCy's type."""


class QAPair(TypedDict):
    """A pair that the reader wrote."""

    question: str
    answer: str
    verbatim: bool
    """The answer occurs verbatim in the passage; False also before the check."""
    coverage: bool
    """Written by the coverage repair."""


class Dropped(TypedDict):
    """A pair that the reader wrote and the check did not let through."""

    question: str
    answer: str
    cause: Literal["not verbatim", "duplicate", "empty"]


class ReaderState(State, total=False):
    """CompactRAG, offline: one passage turned into pairs (Sec. 3.1)."""

    passage: Annotated[str | GivenPassage, EphemeralValue]
    """As in the input; only the first node sees it."""
    source: PassageRef
    entities: list[Entity]
    facts: list[str]
    """Atomic facts, which the reader writes before the pairs (App. A)."""
    drafts: list[QAPair]
    """Pairs that have not been checked."""
    pairs: list[QAPair]
    """Pairs that have, and stay."""
    dropped: list[Dropped]
    uncovered: list[str]
    """Entities that no pair mentions."""
    repaired: bool
    """The coverage repair has had its turn."""
