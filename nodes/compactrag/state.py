"""CompactRAG's state."""

from __future__ import annotations

from typing import Annotated, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from nodes.kit.knowledge import PairsRef
from nodes.kit.state import GivenPassage, Hit, PassageRef, State


class PairRef(Hit):
    """A question-answer pair of the knowledge base in the state; its id is `<passage id>#<number>`."""

    passage: str
    """Id of its passage."""


class SubQuestion(TypedDict):
    """A node of CompactRAG's dependency graph (Sec. 3.2.1), and its result."""

    number: int
    """From 1; `#1` in a later one's text refers to its answer."""
    question: str
    """As written by the decomposer."""
    depends_on: list[int]
    """Numbers of the sub-questions whose answers it needs."""
    rewritten: str
    """With those answers inserted: the query, and the extractor's input."""
    pairs: list[PairRef]
    """Retrieved, best first."""
    answer: str
    """The extracted span; "" if there is none."""
    answer_from: str
    """Id of the pair it was extracted from."""
    probability: float | None
    """The extractor's probability of the span."""
    wave: int
    """Sub-questions of one wave are independent of each other and processed together; 0 while it waits."""


class CompactState(State, total=False):
    """CompactRAG, online: a graph of sub-questions."""

    knowledge: PairsRef
    plan: list[SubQuestion]
    wave: int
    """Number of waves started."""


class ReaderInput(TypedDict):
    """Input of CompactRAG's reader."""

    passage: str | GivenPassage
    """A passage id of the index, or a passage."""


class Entity(TypedDict):
    """A named entity of the passage."""

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
    """A pair of the reader that failed the check."""

    question: str
    answer: str
    cause: Literal["not verbatim", "duplicate", "empty"]


class ReaderState(State, total=False):
    """CompactRAG, offline: one passage turned into pairs (Sec. 3.1)."""

    passage: Annotated[str | GivenPassage, EphemeralValue]
    """From the input; only the first node sees it."""
    source: PassageRef
    entities: list[Entity]
    facts: list[str]
    """Atomic facts, which the reader writes before the pairs (App. A)."""
    drafts: list[QAPair]
    """Pairs not checked yet."""
    pairs: list[QAPair]
    """Pairs that passed the check."""
    dropped: list[Dropped]
    uncovered: list[str]
    """Entities that no pair mentions."""
    repaired: bool
    """Whether the coverage repair has run."""
