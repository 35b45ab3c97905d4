"""HANRAG's state."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from inference.heads.revelator import Route
from inference.ledger import Call
from nodes.chain import Hop, Relevance
from nodes.kit.state import IndexRef, PassageRef, QuestionInput, State, Step, merge_by_id


class AnragInput(TypedDict):
    """Input of ANRAG: one question to answer in one retrieval."""

    at: str
    """Id of the hop, `root/1`."""
    seed: str
    """The question."""
    given: list[str]
    index: IndexRef | None
    settings: dict[str, Any]
    final: NotRequired[bool]
    """Whether its answer is the run's: the question is answered in a single step."""


class AnragOutput(TypedDict):
    """Output of ANRAG."""

    chain: Annotated[list[Hop], merge_by_id]
    trajectory: Annotated[list[Step], merge_by_id]
    ledger: Annotated[list[Call], merge_by_id]


class AnragState(AnragInput, AnragOutput, total=False):
    """ANRAG, noise-resistant retrieval in one step: a subgraph of HANRAG."""

    candidates: list[PassageRef]
    judged: Annotated[list[Relevance], merge_by_id]


class HanInput(QuestionInput):
    """Input of HANRAG."""

    gold_route: NotRequired[Route]
    """The path to take, for the oracle router."""


class HanState(State, total=False):
    """HANRAG: the route, and the chain of questions that ANRAG answered."""

    gold_route: Annotated[Route, EphemeralValue]
    route: Route | None
    """The path taken; None before the router has run."""
    subquestions: list[str]
    """Of a compound question."""
    seed: str
    """Of a complex question: the next question to answer."""
    chain: Annotated[list[Hop], merge_by_id]
