"""State of the baselines."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from nodes.baselines.context import Complexity
from nodes.chain import Hop
from nodes.kit.state import PassageRef, QuestionInput, State, merge_by_id


class SelfAskState(State, total=False):
    """Self-Ask: the chain of follow-up questions."""

    at: str
    """Id of the current hop."""
    seed: str
    """Its follow-up question."""
    repeated: bool
    """It was asked before: only the answer is allowed next."""
    candidates: list[PassageRef]
    """Its search results."""
    chain: Annotated[list[Hop], merge_by_id]


class IrcotState(State, total=False):
    """IRCoT: sentences of a chain of thought, and in `evidence` all passages that were found by them."""

    thoughts: list[str]
    concluded: bool
    """The last sentence says the answer, or no further one could be generated."""


class IterRetGenState(State, total=False):
    """Iter-RetGen: what the latest iteration wrote."""

    iteration: int
    """Iterations ended."""
    draft: str
    """Reasoning and answer, the query of the next search; "" before the first."""


Action = Literal["search", "lookup", "finish"]
"""What ReAct's agent can do."""


class Turn(TypedDict):
    """A thought of ReAct, the action that it led to, and what was observed."""

    thought: str
    action: Action
    argument: str
    passages: list[PassageRef]
    """Results of a search; empty until the next thought."""
    observation: str
    """Result of a lookup as text; "" for a search."""


class ReactState(State, total=False):
    """ReAct: thoughts, actions and observations in turn."""

    turns: list[Turn]
    page: list[PassageRef]
    """Results of the latest search, which lookups search in."""


class AdaptiveInput(QuestionInput):
    """Input of Adaptive-RAG."""

    gold_route: NotRequired[Complexity]
    """The path to take, for the oracle classifier."""


class AdaptiveState(IrcotState, total=False):
    """Adaptive-RAG: how complex the question is, and IRCoT's state where it takes several steps."""

    gold_route: Annotated[Complexity, EphemeralValue]
    route: Complexity | None
    """The path taken; None before the router has run."""
